# SPDX-License-Identifier: Apache-2.0
"""Tensors of others on their way into a slot and out of it, without a server."""
import array
import ctypes
import unittest

from gpuwire import errors, tensors
from serving import needs_numpy, needs_torch, numpy, torch

PICTURE = tensors.TensorInfo("x", "FP32", (-1, 2, 3), True)
FIXED = tensors.TensorInfo("x", "FP32", (2, 3), False)
SIX = array.array("f", range(6))


def sent(x, info):
    """The bytes that a request would carry, and the shape."""
    source = tensors.source(x, info)
    slot = ctypes.create_string_buffer(max(source.nbytes, 1))
    source.write(ctypes.addressof(slot))
    by_address = ctypes.string_at(source.address(), source.nbytes)
    assert by_address == slot.raw[:source.nbytes], "the two ways to the bytes differ"
    return by_address, source.shape


def answered(data, name, shape, like, out=None):
    dtype = next(d for d in tensors.DTYPES if d.name == name)
    slot = ctypes.create_string_buffer(bytes(data), len(data))
    info = tensors.TensorInfo("x", name, tuple(shape), False)
    value = tensors.answer(ctypes.addressof(slot), len(data), dtype, tuple(shape), tensors.source(like, info), out, "y")
    ctypes.memset(slot, 0xEE, len(data))  # an answer is a copy: the slot is used again
    return value


class Buffers(unittest.TestCase):
    def test_bytes_tell_the_number_of_samples(self):
        self.assertEqual(sent(bytes(48), PICTURE), (bytes(48), (2, 2, 3)))
        self.assertEqual(sent(SIX, PICTURE), (SIX.tobytes(), (1, 2, 3)))
        self.assertEqual(sent(memoryview(SIX).cast("B").cast("f", (2, 3)), FIXED), (SIX.tobytes(), (2, 3)))

    def test_read_only_and_strided_memory(self):
        self.assertEqual(sent(memoryview(SIX.tobytes()), FIXED)[0], SIX.tobytes())
        twice = array.array("f", [v for n in range(6) for v in (n, -1)])
        self.assertEqual(sent(memoryview(twice)[::2], FIXED)[0], SIX.tobytes())

    def test_what_does_not_fit_is_refused(self):
        for x in (bytes(25), b"", array.array("d", range(6)), array.array("i", range(6)),
                  memoryview(SIX).cast("B").cast("f", (3, 2))):
            with self.assertRaises(errors.Invalid) as raised:
                sent(x, FIXED)
            self.assertIn("input x", str(raised.exception))
        with self.assertRaises(ValueError):  # which Invalid is, too
            sent(bytes(20), PICTURE)


@needs_numpy
class Numpy(unittest.TestCase):
    def test_every_type_goes_there_and_back(self):
        for d in tensors.DTYPES:
            x = numpy.arange(6).astype(d.numpy).reshape(2, 3)
            info = tensors.TensorInfo("x", d.name, (2, 3), False)
            data, shape = sent(x, info)
            self.assertEqual((data, shape), (x.tobytes(), (2, 3)), d.name)
            back = answered(data, d.name, shape, x)
            self.assertEqual(back.dtype, x.dtype)
            numpy.testing.assert_array_equal(back, x)

    def test_layouts(self):
        x = numpy.arange(12, dtype="float32").reshape(3, 4)
        self.assertEqual(sent(x.T[:2, :3], FIXED)[0], numpy.ascontiguousarray(x.T[:2, :3]).tobytes())
        self.assertEqual(sent([[0, 1, 2], [3, 4, 5]], FIXED)[0], SIX.tobytes())
        self.assertEqual(sent(numpy.float32(3), tensors.TensorInfo("x", "FP32", (), False))[1], ())

    def test_refusals_say_what_to_do(self):
        for x, word in ((numpy.zeros((2, 3)), "astype"), (numpy.zeros((3, 2), "float32"), "shape [2, 3]")):
            with self.assertRaises(errors.Invalid) as raised:
                sent(x, FIXED)
            self.assertIn(word, str(raised.exception))

    def test_out(self):
        out = numpy.zeros((2, 3), "float32")
        self.assertIs(answered(SIX.tobytes(), "FP32", (2, 3), out, out), out)
        self.assertEqual(out.tobytes(), SIX.tobytes())
        for wrong in (numpy.zeros((3, 2), "float32"), numpy.zeros((2, 3), "int32"), bytearray(24)):
            with self.assertRaises(errors.Invalid):
                answered(SIX.tobytes(), "FP32", (2, 3), numpy.zeros((2, 3), "float32"), wrong)

    def test_dlpack(self):
        class Speaks:
            def __init__(self, x):
                self.x = x

            def __dlpack__(self, **how):
                return self.x.__dlpack__(**how)

            def __dlpack_device__(self):
                return self.x.__dlpack_device__()

        x = numpy.arange(6, dtype="float32").reshape(2, 3)
        self.assertEqual(sent(Speaks(x), FIXED), (x.tobytes(), (2, 3)))


@needs_torch
class Torch(unittest.TestCase):
    def test_every_type_goes_there_and_back(self):
        for d in tensors.DTYPES:
            x = torch.arange(6).to(getattr(torch, d.torch)).reshape(2, 3)
            data, shape = sent(x, tensors.TensorInfo("x", d.name, (2, 3), False))
            back = answered(data, d.name, shape, x)
            self.assertEqual((back.dtype, back.shape), (x.dtype, x.shape))
            self.assertTrue(torch.equal(back, x), d.name)

    def test_layouts_and_gradients(self):
        x = torch.arange(6.0, requires_grad=True).reshape(3, 2).T
        self.assertEqual(sent(x, FIXED)[0], x.detach().contiguous().numpy().tobytes())

    def test_out(self):
        out = torch.zeros(2, 3)
        self.assertIs(answered(SIX.tobytes(), "FP32", (2, 3), out, out), out)
        self.assertEqual(out.flatten().tolist(), list(SIX))


if __name__ == "__main__":
    unittest.main()
