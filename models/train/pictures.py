# SPDX-License-Identifier: Apache-2.0
"""What the network is trained and judged on, as arrays: 8-bit RGB pictures, resampled, rotated and synthetic ones.

Needs numpy and Pillow only. "Bicubic" is Pillow's BICUBIC throughout: a = -0.5, and when it shrinks, the
kernel is widened by the factor (antialiased). src/image/resize.c computes the same.
"""
import math
import pathlib

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SCALE = 3
LUMA = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601, full range, as in JPEG

# How often a training picture is drawn from, relative to the others: sharp photographs of many things most.
WEIGHTS = {"china": 4, "flower": 2.5, "camera": 3, "rocket": 2.5, "hubble_deep_field": 1, "retina": 1, "brick": 1,
           "grass": 1.5, "gravel": 1.5, "coins": 1, "ihc": 1, "synthetic": 3}
# Pictures that were JPEG files are used at reduced size only, where the artefacts of that format are gone.
WAS_JPEG = {"china", "flower", "rocket", "hubble_deep_field", "retina"}


def load(path):
    return Image.open(path).convert("RGB")


def held_out(folder):
    """{name: RGB picture} of those never trained on, cropped at the right and bottom to a multiple of SCALE."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("heldout_*.png")):
        picture = load(path)
        found[path.stem.removeprefix("heldout_")] = picture.crop(
            (0, 0, picture.width // SCALE * SCALE, picture.height // SCALE * SCALE))
    return found


def luma(picture):
    """The float luma, 0 to 1, of an 8-bit RGB picture."""
    return np.asarray(picture, dtype=np.float64) @ LUMA / 255.0


def shrink(picture):
    return picture.resize((picture.width // SCALE, picture.height // SCALE), Image.Resampling.BICUBIC)


def enlarge(picture):
    return picture.resize((picture.width * SCALE, picture.height * SCALE), Image.Resampling.BICUBIC)


def psnr(a, b, border=SCALE):
    """PSNR in dB of two luma arrays in [0, 1], without a border of `border` pixels."""
    d = a[border:-border, border:-border] - b[border:-border, border:-border]
    return 10.0 * math.log10(1.0 / max(float(np.mean(d * d)), 1e-12))


def cubic(x):
    x = abs(x)
    if x < 1:
        return (1.5 * x - 2.5) * x * x + 1
    return ((-0.5 * x + 2.5) * x - 4) * x + 2 if x < 2 else 0.0


def shrink_taps():
    """The 11 taps that make one pixel of a picture shrunk by 3; the middle one stands on pixel 3 i + 1."""
    taps = np.array([cubic(t / SCALE) for t in range(-5, 6)])
    return taps / taps.sum()


def enlarge_phases():
    """(9, 5, 5): for each pixel of a 3x3 block, row by row, the 5x5 taps that bicubic enlargement takes it from."""
    line = np.zeros((3, 5))
    for phase in range(3):
        centre = (phase - 1) / 3  # where the output pixel stands, from the middle of its input pixel
        line[phase] = [cubic(t - centre) for t in range(-2, 3)]
    line /= line.sum(axis=1, keepdims=True)
    return np.einsum("ai,bj->abij", line, line).reshape(9, 5, 5)


def _resized(picture, factor, least):
    w, h = round(picture.width * factor), round(picture.height * factor)
    return picture.resize((w, h), Image.Resampling.BICUBIC) if min(w, h) >= least else None


def _rotated(picture, angle, factor, least):
    turned = picture.rotate(angle, Image.Resampling.BICUBIC)
    a = math.radians(angle)
    side = int(min(picture.size) / (abs(math.cos(a)) + abs(math.sin(a)))) - 4  # the square with no empty corner
    x, y = (picture.width - side) // 2, (picture.height - side) // 2
    return _resized(turned.crop((x, y, x + side, y + side)), factor, least)


def variants(picture, was_jpeg, least):
    """The picture at several sizes and angles, each at least `least` pixels wide and high."""
    top = 0.8 if was_jpeg else 1.0
    made = [_resized(picture, top * f, least) for f in (1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)]
    made += [_rotated(picture, a, f, least) for a in (12, 27, 45, 63, 78) for f in (0.75, 0.6)]
    made = [m for m in made if m is not None]
    if not made:  # a small picture: as large as it takes
        made = [picture.resize((max(picture.width, least), max(picture.height, least)), Image.Resampling.BICUBIC)]
    return [np.asarray(m) for m in made]


def _colour(rng):
    return tuple(int(c) for c in rng.integers(0, 256, 3))


def synthetic(rng, side):
    """Shapes, lines, stripes and letters with clean edges over a gradient: what photographs here have too few of."""
    over = 3
    n = side * over
    ramp = np.linspace(0, 1, n)
    a, b, c = (rng.integers(0, 256, 3) for _ in range(3))
    ground = a + (b - a) * ramp[:, None, None] * 0.5 + (c - a) * ramp[None, :, None] * 0.5
    picture = Image.fromarray(np.clip(ground, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    for _ in range(60):
        kind = rng.integers(0, 5)
        x, y = (int(v) for v in rng.integers(0, n, 2))
        r = int(n * rng.uniform(0.01, 0.15))
        if kind == 0:
            angles = np.sort(rng.uniform(0, 2 * math.pi, int(rng.integers(3, 7))))
            draw.polygon([(x + r * math.cos(t), y + r * math.sin(t)) for t in angles], fill=_colour(rng))
        elif kind == 1:
            draw.ellipse((x - r, y - r * rng.uniform(0.3, 1), x + r, y + r * rng.uniform(0.3, 1)), fill=_colour(rng))
        elif kind == 2:
            x2, y2 = (int(v) for v in rng.integers(0, n, 2))
            draw.line((x, y, x2, y2), fill=_colour(rng), width=int(rng.integers(2, 30)))
        elif kind == 3:
            period, ink = int(rng.integers(6, 40)), _colour(rng)
            slope = rng.uniform(-1, 1) * r
            for k in range(int(rng.integers(4, 12))):
                draw.line((x + k * period, y, x + k * period + slope, y + r), fill=ink, width=max(2, period // 2))
        else:
            letters = "".join(chr(int(v)) for v in rng.integers(33, 127, int(rng.integers(3, 24))))
            draw.text((x, y), letters, fill=_colour(rng), font=_font(int(rng.integers(20, 120))))
    return np.asarray(picture.resize((side, side), Image.Resampling.BICUBIC))


def _font(size):
    try:
        return ImageFont.load_default(size)
    except (TypeError, ImportError, OSError):  # an older Pillow, or one without FreeType, has one size only
        return ImageFont.load_default()


def training(folder, least, rng, count=10):
    """[(weight, RGB array)]: every variant of every training picture, and `count` synthetic pictures."""
    found = []
    for path in sorted(pathlib.Path(folder).glob("train_*.png")):
        name = path.stem.removeprefix("train_")
        arrays = variants(load(path), name in WAS_JPEG, least)
        area = [math.sqrt(a.shape[0] * a.shape[1]) for a in arrays]
        found += [(WEIGHTS.get(name, 1) * s / sum(area), a) for s, a in zip(area, arrays)]
    found += [(WEIGHTS["synthetic"] / count, synthetic(rng, max(640, least))) for _ in range(count)]
    return found
