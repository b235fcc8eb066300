#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the pictures that come with the model: held-out originals, cropped so that both sides divide by 3.

    python3 demo_pictures.py PICTURES ../superresolution/pictures
"""
import argparse
import pathlib

import pictures

NAMES = ["astronaut", "coffee"]


def main():
    parser = argparse.ArgumentParser(description="write the pictures that come with the model")
    parser.add_argument("data", type=pathlib.Path, help="folder that get_pictures.py filled")
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    found = pictures.held_out(args.data)
    for name in NAMES:
        found[name].save(args.out / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
