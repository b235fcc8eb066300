#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the Python wheel: the package of python/ and, inside it, the shared libraries of a build with all they need.

    scripts/wheel.py BUILD [OUT]        BUILD/wheel/gpuwire-VERSION-py3-none-linux_x86_64.whl

It needs patchelf and strip. The wheel runs where there are glibc 2.36 or newer and Python 3.9 or newer.
"""
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

TREE = pathlib.Path(__file__).resolve().parent.parent
# These come from the machine: the C library, the compiler's runtimes (which other packages load, too), and all that
# belongs to the GPU's driver.
FROM_THE_MACHINE = re.compile(
    r"^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s|cuda|nvidia.*))\.so")
# These keep their names, because the software NIC and RDMA's provider look for them by name. They lie in a folder of
# their own, and the package loads them only where the machine has none: see python/gpuwire/_library.py.
VERBS = re.compile(r"^lib(ibverbs|mlx5|rdmacm|nl-3|nl-route-3)\.so")
PARTS = ("libgpuwire.so", "libgpuwire-softnic.so", "libgpuwire-client.so", "libgpuwire-collective.so", "libgpuwire-serve.so")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def version():
    return re.search(r"project\(gpuwire VERSION ([0-9.]+)", (TREE / "CMakeLists.txt").read_text()).group(1)


def needs(library):
    """The libraries that it is linked to, all the way down, but for the machine's: name and file."""
    found = re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", str(library)), re.M)
    return {name: pathlib.Path(path) for name, path in found if not FROM_THE_MACHINE.match(name)}


def own_name(name):
    """Others' libraries get names of their own: a process has one library of each name, and Python's own modules, or
    another package, may want another version of it."""
    ours = name.startswith("libgpuwire") or VERBS.match(name)
    return name if ours else name.replace(".so", "-gpuwire.so", 1)


def provider_file():
    """libmlx5's name as RDMA's provider, which is how libibverbs looks for it."""
    for folder in pathlib.Path("/usr").glob("lib*/**/libibverbs"):
        for file in folder.glob("libmlx5-rdmav*.so"):
            return file.name
    sys.exit("wheel: no libmlx5-rdmav*.so below /usr/lib; install rdma-core's providers (ibverbs-providers)")


def stage_libraries(build, lib):
    (lib / "verbs").mkdir(parents=True)
    names = {}
    for part in PARTS:
        source = (build / "lib" / part)
        if not source.exists():
            if part == "libgpuwire-serve.so":
                continue
            sys.exit(f"wheel: {source} is not there; run `make` first")
        names[run("patchelf", "--print-soname", str(source))] = source
        names.update(needs(source))
    for name, source in names.items():
        if VERBS.match(name):
            # One file under the provider's name: the linker knows it by its own name as well, once it is loaded. A
            # second file would be a second driver.
            target = lib / "verbs" / (provider_file() if name.startswith("libmlx5") else name)
        else:
            target = lib / own_name(name)
        shutil.copyfile(source.resolve(), target)
        patch(target, name, names)
    return names


def patch(file, name, names):
    run("strip", "--strip-unneeded", str(file))
    # One change at a time: patchelf loses some of several.
    for need in run("patchelf", "--print-needed", str(file)).split():
        if need in names and own_name(need) != need:
            run("patchelf", "--replace-needed", need, own_name(need), str(file))
    run("patchelf", "--set-soname", own_name(name), str(file))
    run("patchelf", "--set-rpath", "$ORIGIN", str(file))


def stage_licences(names, folder):
    """What Debian says about each library of others that the wheel carries."""
    folder.mkdir(parents=True)
    shutil.copyfile(TREE / "LICENSE", folder / "LICENSE")
    if not shutil.which("dpkg-query"):
        return
    # A package may have its files in /lib, which is /usr/lib. What dpkg does not know it leaves out.
    paths = [str(source.resolve()) for source in names.values()]
    paths += [path.removeprefix("/usr") for path in paths]
    asked = subprocess.run(["dpkg-query", "-S", *paths], capture_output=True, text=True)
    for package in {line.split(":")[0] for line in asked.stdout.splitlines()}:
        copyright_file = pathlib.Path("/usr/share/doc") / package / "copyright"
        if copyright_file.is_file():
            shutil.copyfile(copyright_file, folder / f"{package}.txt")


def stage_metadata(info):
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: gpuwire\nRoot-Is-Purelib: false\n"
                                "Tag: py3-none-linux_x86_64\n")
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: gpuwire\nVersion: {version()}\n"
        "Summary: Models that answer over RDMA and HTTP while the CPU sleeps: server and client\n"
        "License: Apache-2.0\nRequires-Python: >=3.9\nProvides-Extra: numpy\nRequires-Dist: numpy>=1.23; extra == 'numpy'\n"
        "Description-Content-Type: text/markdown\n\n" + (TREE / "docs/python.md").read_text(encoding="utf-8"))


def pack(stage, info, wheel):
    records = []
    level = int(os.environ.get("WHEEL_LEVEL", 6))  # a test is in a hurry
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        def add(name, data):
            # The same tree makes the same file: no times of today's.
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=level)

        for file in sorted(p for p in stage.rglob("*") if p.is_file()):
            data = file.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            name = file.relative_to(stage).as_posix()
            records.append(f"{name},sha256={digest},{len(data)}")
            add(name, data)
        record = f"{info.name}/RECORD"
        add(record, "\n".join(records + [f"{record},,", ""]))


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: scripts/wheel.py BUILD [OUT]")
    build = pathlib.Path(sys.argv[1])
    out = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else build / "wheel"
    for tool in ("patchelf", "strip", "ldd"):
        if not shutil.which(tool):
            sys.exit(f"wheel: {tool} is missing; on Debian run scripts/setup.sh --tests")
    stage = out / "stage"
    shutil.rmtree(stage, ignore_errors=True)
    info = stage / f"gpuwire-{version()}.dist-info"
    shutil.copytree(TREE / "python/gpuwire", stage / "gpuwire",
                    ignore=shutil.ignore_patterns("__pycache__"))
    names = stage_libraries(build, stage / "gpuwire/lib")
    stage_licences(names, info / "licenses")
    stage_metadata(info)
    wheel = out / f"gpuwire-{version()}-py3-none-linux_x86_64.whl"
    pack(stage, info, wheel)
    shutil.rmtree(stage)
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB, {len(names)} libraries")


if __name__ == "__main__":
    main()
