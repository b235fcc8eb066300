# SPDX-License-Identifier: Apache-2.0
# A guest with Linux' own soft-RoCE (rxe), made of Debian packages: $guest/vmlinuz and $guest/initrd.
# Sourced. Nothing is installed; the kernel's package is fetched and unpacked, the programs are this system's.

guest_programs=(ibv_devinfo ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong
    ib_send_bw ib_send_lat ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_atomic_bw ib_atomic_lat
    rping rstream riostream ucmatose udaddy)
# In the order in which they have to be loaded. A name may be built in, or not exist in some kernels.
guest_modules=(virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci failover net_failover virtio_net
    crc32_generic udp_tunnel ip6_udp_tunnel configfs ib_core ib_uverbs ib_cm iw_cm rdma_cm rdma_ucm rdma_rxe)

# install_missing PACKAGE...: those that this system lacks, if it may.
install_missing() {
    local want=() p sudo=
    for p in "$@"; do
        dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || want+=("$p")
    done
    [ ${#want[@]} -eq 0 ] && return 0
    if [ "$(id -u)" != 0 ]; then
        sudo=sudo
        sudo -n true 2>/dev/null || { echo "interop: as root run: apt-get install ${want[*]}" >&2; return 1; }
    fi
    echo "interop: installing ${want[*]}"
    $sudo apt-get update -q >/dev/null 2>&1
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${want[@]}" >/dev/null 2>&1 || {
        echo "interop: cannot install ${want[*]}: is the Debian mirror reachable?" >&2
        return 1
    }
}

# fetch_kernel DIR: unpacks the distribution's newest kernel package there.
fetch_kernel() {
    local package
    mkdir -p "$1/deb"
    package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    [ -n "$package" ] || {
        echo "interop: the package lists do not know linux-image-amd64: run apt-get update (this needs Debian)" >&2
        return 1
    }
    (cd "$1/deb" && timeout 240 apt-get download -q "$package") >"$1/download.log" 2>&1 || {
        tail -n 3 "$1/download.log" >&2
        echo "interop: cannot download $package: is the Debian mirror reachable, and are the package lists fresh?" >&2
        return 1
    }
    dpkg-deb -x "$1"/deb/linux-image-*.deb "$1/kernel" && rm -r "$1/deb"
}

# with_libraries ROOT PROGRAM...: copies programs to /opt/bin and what they are linked with to the same places as here.
with_libraries() {
    local root=$1 program library
    shift
    for program in "$@"; do
        case $program in
        *.so*) mkdir -p "$root${program%/*}" && cp -L "$program" "$root$program" ;;
        *) cp -L "$program" "$root/opt/bin/" ;;
        esac
        while read -r library; do
            [ -e "$root$library" ] && continue
            mkdir -p "$root${library%/*}"
            cp -L "$library" "$root$library"
        done < <(ldd "$program" | sed -n 's/.*\(=> \|^\t\)\(\/[^ ]*\) (.*/\2/p')
    done
}

add_modules() {
    local root=$1 modules=$2 name file
    mkdir -p "$root/modules"
    for name in "${guest_modules[@]}"; do
        file=$(find "$modules" -name "$name.ko" | head -n 1)
        [ -n "$file" ] || continue
        cp "$file" "$root/modules/"
        echo "$name.ko" >>"$root/modules/order"
    done
}

# with_python ROOT: the system's Python with pyverbs, and rdma-core's tests, at the same places as here.
with_python() {
    local root=$1 python library packages=/usr/lib/python3/dist-packages tests=/usr/share/doc/rdma-core/tests
    python=$(readlink -f /usr/bin/python3)
    library=/usr/lib/${python##*/}
    [ -d "$library" ] && [ -d "$packages/pyverbs" ] && [ -d "$tests" ] ||
        { echo "interop: no Python with pyverbs here: install python3 and python3-pyverbs" >&2; return 1; }
    mkdir -p "$root$packages" "$root${tests%/*}" "$root/usr/bin" "$root/usr/lib"
    cp -a "$library" "$root/usr/lib/"
    rm -rf "$root$library"/{test,idlelib,lib2to3,tkinter,ensurepip,distutils,pydoc_data} "$root$library"/config-*
    cp -a "$packages/pyverbs" "$root$packages/"
    cp -a "$tests" "$root$tests"
    mapfile -t extensions < <(find "$library/lib-dynload" "$packages/pyverbs" -name '*.so')
    with_libraries "$root" "$python" "${extensions[@]}" "$(PATH=$PATH:/usr/sbin:/sbin command -v ip)"
    ln -s "/opt/bin/${python##*/}" "$root/usr/bin/python3"
}

# make_guest DIR PROGRAM...: more PROGRAMs (paths) go into the guest's /opt/bin. $guest_more, if it is set, is a command that
# puts more into the folder that it is called with.
make_guest() {
    local dir=$1 root=$1/root here=${BASH_SOURCE[0]%/*} name paths=() provider
    shift
    fetch_kernel "$dir" || return 1
    mkdir -p "$root"/{bin,opt/bin,etc/libibverbs.d}
    cp "$(command -v busybox)" "$root/bin/busybox"
    cp "$here/init" "$here/agent" "$root/"
    chmod 755 "$root/init" "$root/agent"
    for name in "${guest_programs[@]}" rdma; do paths+=("$(PATH=$PATH:/usr/sbin:/sbin command -v "$name")"); done
    provider=$(echo /usr/lib/*/libibverbs/librxe-rdmav*.so)
    # What pthread_exit loads when it is called.
    paths+=("$(ldconfig -p 2>/dev/null | sed -n 's/.*libgcc_s.so.1 (.*x86-64.*=> //p' | head -n 1)")
    with_libraries "$root" "${paths[@]}" "$@" "$provider"
    echo "driver rxe" >"$root/etc/libibverbs.d/rxe.driver"
    add_modules "$root" "$dir/kernel/lib/modules"
    [ -z "${guest_more:-}" ] || $guest_more "$root" || return 1
    cp "$dir"/kernel/boot/vmlinuz-* "$dir/vmlinuz"
    (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$dir/initrd"
    rm -rf "$root" "$dir/kernel"
}
