#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies the pictures the super-resolution network is trained and judged on out of installed Python packages.

    python3 -m pip install scikit-image scikit-learn pillow
    python3 get_pictures.py DIRECTORY [--list PICTURES.md]

Nothing is downloaded: the pictures are those that the wheels of scikit-image and scikit-learn carry. Each is
written as PNG, with its name prefixed by what it is for: train_ or heldout_. Only pictures whose licence the
packages state, and which may be used and passed on freely, are taken.
"""
import argparse
import importlib.metadata
import pathlib
import sys

from PIL import Image

SKIMAGE_NASA = "public domain (NASA)"
CC0 = "CC0 1.0"
NO_KNOWN = "no known copyright restrictions"
CC_BY = "CC BY 2.0"

# use, file, package, licence, origin: as the packages' documentation (skimage.data, sklearn's README.txt) says.
PICTURES = [
    ("heldout", "astronaut.png", "skimage", SKIMAGE_NASA, "Eileen Collins; NASA, https://flic.kr/p/r9qvLn"),
    ("heldout", "coffee.png", "skimage", CC0, "coffee cup; Rachel Michetti, courtesy of Pikolo Espresso Bar"),
    ("heldout", "chelsea.png", "skimage", CC0, "a cat; Stefan van der Walt"),
    ("train", "china.jpg", "sklearn", CC_BY, "a temple; danielbuechele, "
     "https://www.flickr.com/photos/danielbuechele/6061409035/"),
    ("train", "flower.jpg", "sklearn", CC_BY, "a flower; vultilion, "
     "https://www.flickr.com/photos/vultilion/6056698931/"),
    ("train", "camera.png", "skimage", CC0, "a man with a camera; Lav Varshney"),
    ("train", "rocket.jpg", "skimage", "public domain (SpaceX)", "launch of DSCOVR; "
     "https://www.flickr.com/photos/spacexphotos/16511594820/"),
    ("train", "hubble_deep_field.jpg", "skimage", SKIMAGE_NASA, "Hubble eXtreme Deep Field; "
     "http://hubblesite.org/newscenter/archive/releases/2012/37/image/a/"),
    ("train", "retina.jpg", "skimage", CC0, "a retina; Mikael Häggström, "
     "https://commons.wikimedia.org/wiki/File:Fundus_photograph_of_normal_left_eye.jpg"),
    ("train", "brick.png", "skimage", CC0, "a brick wall; CC0Textures, Bricks25"),
    ("train", "grass.png", "skimage", CC0, "grass; linolafett, "
     "https://www.deviantart.com/linolafett/art/Grass-01-434853879"),
    ("train", "gravel.png", "skimage", CC0, "gravel; CC0Textures, Gravel04"),
    ("train", "coins.png", "skimage", NO_KNOWN, "Greek coins; Brooklyn Museum, "
     "https://www.brooklynmuseum.org/opencollection/archives/image/51611"),
    ("train", "ihc.png", "skimage", NO_KNOWN, "stained tissue; Center for Microscopy and Molecular Imaging"),
]

FOLDER = {"skimage": ("scikit-image", "data"), "sklearn": ("scikit-learn", "datasets/images")}


def locate(package, name):
    """The path of a picture inside an installed package; the package itself need not be imported."""
    distribution, folder = FOLDER[package]
    try:
        return pathlib.Path(importlib.metadata.distribution(distribution).locate_file(f"{package}/{folder}/{name}"))
    except importlib.metadata.PackageNotFoundError:
        sys.exit(f"get_pictures.py: {distribution} is not installed; run: python3 -m pip install {distribution}")


def table(rows):
    lines = ["# The pictures the network is trained and judged on", "",
             "Written by `get_pictures.py`, which copies them out of the wheels of scikit-image and scikit-learn. The",
             "held-out ones are never trained on; the training ones are not part of this repository.", "",
             "| picture | use | size | package | origin | licence |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [f"| {name} | {use} | {w}×{h} | {dist} {version} | {origin} | {licence} |"
              for name, use, w, h, dist, version, origin, licence in rows]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="copy freely licensed pictures out of Python packages")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--list", type=pathlib.Path, help="also write a Markdown table of origins and licences")
    args = parser.parse_args()
    args.directory.mkdir(parents=True, exist_ok=True)
    rows = []
    for use, name, package, licence, origin in PICTURES:
        path = locate(package, name)
        if not path.exists():
            sys.exit(f"get_pictures.py: {path} is missing; this version of {package} no longer carries it")
        picture = Image.open(path)
        picture = picture.convert("L" if picture.mode == "L" else "RGB")
        picture.save(args.directory / f"{use}_{path.stem}.png")
        dist = FOLDER[package][0]
        rows.append((name, {"heldout": "held out", "train": "training"}[use], *picture.size, dist,
                     importlib.metadata.version(dist), origin, licence))
    if args.list:
        args.list.write_text(table(rows), encoding="utf-8")
    print(f"{len(rows)} pictures in {args.directory}")


if __name__ == "__main__":
    main()
