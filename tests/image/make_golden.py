#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden.h: what Pillow makes of small pictures, for the tests to compare with. python3 make_golden.py > golden.h"""
import numpy as np
import PIL
from PIL import Image

# All of them such that Pillow resizes the rows first, which versions after 12 do not always.
SIZES = [(39, 27), (5, 4), (19, 20), (1, 1), (4, 21)]


def source():
    """13 x 9 RGB with smooth parts, noise and edges that overshoot."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[0:9, 0:13]
    r = 255 * ((x // 4 + y // 3) % 2)
    g = (x * 19 + y * 3) % 256
    b = rng.integers(0, 256, (9, 13))
    return np.stack([r, g, b], axis=2).astype(np.uint8)


def rows(values, form):
    values = [form(v) for v in values]
    per = 12 if len(values[0]) > 5 else 24
    return ",\n".join("    " + ", ".join(values[i:i + per]) for i in range(0, len(values), per))


def main():
    picture = source()
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print(f"/* Written by make_golden.py with Pillow {PIL.__version__}: a picture, and it resized with BICUBIC. */")
    print("#ifndef GW_TEST_IMAGE_GOLDEN_H\n#define GW_TEST_IMAGE_GOLDEN_H\n\n#include <stdint.h>\n")
    print(f"static const uint8_t golden_source[13 * 9 * 3] = {{\n{rows(picture.ravel(), str)}}};\n")
    for w, h in SIZES:
        made = np.asarray(Image.fromarray(picture).resize((w, h), Image.Resampling.BICUBIC))
        print(f"static const uint8_t golden_{w}x{h}[{w} * {h} * 3] = {{\n{rows(made.ravel(), str)}}};\n")
    plane = Image.fromarray(picture[:, :, 2].astype(np.float32) / 255)
    for w, h in [(31, 25), (5, 4)]:
        made = np.asarray(plane.resize((w, h), Image.Resampling.BICUBIC))
        print(f"/* Its blue channel, 0 to 1, as floats. */\nstatic const float golden_plane_{w}x{h}[{w} * {h}] = {{\n"
              f"{rows(made.ravel(), lambda v: f'{v:.7f}f')}}};\n")
    ycc = np.asarray(Image.fromarray(picture).convert("YCbCr"))
    print("/* Its luma and colour differences, rounded to 8 bits. */")
    print(f"static const uint8_t golden_ycbcr[13 * 9 * 3] = {{\n{rows(ycc.ravel(), str)}}};\n")
    print("#endif")


if __name__ == "__main__":
    main()
