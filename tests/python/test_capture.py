# SPDX-License-Identifier: Apache-2.0
"""What a capture works out of a module and its examples, as far as that needs no GPU (gpu_serving.py has the rest)."""
import unittest

from gpuwire import capture, errors
from serving import needs_torch, torch


@needs_torch
class Capture(unittest.TestCase):
    def test_names_of_inputs(self):
        class Two(torch.nn.Module):
            def forward(self, picture, mask, scale=1.0):
                return picture * mask * scale

        x = torch.zeros(2, 3)
        names = [n for n, _ in capture._arguments(Two(), (x, x), "m")[0]]
        self.assertEqual(names, ["picture", "mask"])
        found, by_name = capture._arguments(Two(), {"mask": x, "picture": x}, "m")
        self.assertEqual(([n for n, _ in found], by_name), (["mask", "picture"], True))
        self.assertEqual(capture._arguments(lambda *tensors: tensors[0], [x, x], "m")[0][1][0], "input1")
        for wrong in ([], (x, 3)):
            with self.assertRaisesRegex(errors.Invalid, "model m"):
                capture._arguments(Two(), wrong, "m")

    def test_names_of_outputs(self):
        x = torch.zeros(2, 3)
        self.assertEqual([n for n, _ in capture._outputs(x, "m")], ["output"])
        self.assertEqual([n for n, _ in capture._outputs((x, x), "m")], ["output0", "output1"])
        self.assertEqual([n for n, _ in capture._outputs({"logits": x, "cache": None}, "m")], ["logits"])
        for wrong in (None, {}, [x, None]):
            with self.assertRaisesRegex(errors.Invalid, "wrap it"):
                capture._outputs(wrong, "m")

    def test_rows(self):
        x = torch.arange(6).reshape(2, 3)
        self.assertEqual(capture._rows_of(x, 1).tolist(), [[0, 1, 2]])
        self.assertEqual(capture._rows_of(x, 3).tolist(), [[0, 1, 2], [3, 4, 5], [0, 1, 2]])
        for wrong in (torch.tensor(1.0), torch.zeros(0, 3)):
            with self.assertRaisesRegex(errors.Invalid, "batch_sizes=None"):
                capture._rows_of(wrong, 1)

    def test_outputs_must_grow_with_the_batch(self):
        def kept(*shapes):
            return [([], [("y", torch.zeros(shape))]) for shape in shapes]

        capture._check_batched(kept((1, 4), (2, 4)), [1, 2], "m")
        for wrong in (kept((1, 4), (1, 4)), kept((1, 4), (2, 5)), kept((), ())):
            with self.assertRaisesRegex(errors.Invalid, "output y has shape"):
                capture._check_batched(wrong, [1, 2], "m")

    def test_one_gpu_is_wanted(self):
        with self.assertRaisesRegex(errors.Unsupported, r"cpu.*\.cuda\(\)"):
            capture._device(torch, torch.nn.Linear(2, 2), [torch.zeros(1, 2)], "m")


if __name__ == "__main__":
    unittest.main()
