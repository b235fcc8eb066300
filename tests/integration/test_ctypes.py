# SPDX-License-Identifier: Apache-2.0
"""The software NIC in a process that loads everything at run time: no preload, no linking."""
import ctypes
import os
import subprocess
import sys

softnic = ctypes.CDLL(sys.argv[1])  # RTLD_LOCAL: its names must not be visible
assert "SYSFS_PATH" not in os.environ
assert softnic.softnic_install() == 0
assert softnic.softnic_install() == 0
assert "SYSFS_PATH" not in subprocess.run(["env"], capture_output=True, text=True, check=True).stdout

ibv = ctypes.CDLL("libibverbs.so.1", use_errno=True)
ibv.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
ibv.ibv_get_device_name.restype = ctypes.c_char_p
ibv.ibv_get_device_name.argtypes = [ctypes.c_void_p]
ibv.ibv_open_device.restype = ctypes.c_void_p
ibv.ibv_open_device.argtypes = [ctypes.c_void_p]
ibv.ibv_alloc_pd.restype = ctypes.c_void_p
ibv.ibv_alloc_pd.argtypes = [ctypes.c_void_p]
ibv.ibv_dealloc_pd.argtypes = [ctypes.c_void_p]
ibv.ibv_reg_mr.restype = ctypes.c_void_p
ibv.ibv_reg_mr.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
ibv.ibv_dereg_mr.argtypes = [ctypes.c_void_p]
ibv.ibv_close_device.argtypes = [ctypes.c_void_p]
ibv.ibv_free_device_list.argtypes = [ctypes.POINTER(ctypes.c_void_p)]

count = ctypes.c_int()
devices = ibv.ibv_get_device_list(ctypes.byref(count))
assert count.value == 1, count.value
assert ibv.ibv_get_device_name(devices[0]) == b"mlx5_0"
ctx = ibv.ibv_open_device(devices[0])
assert ctx, os.strerror(ctypes.get_errno())
assert softnic.softnic_uninstall() == -16  # EBUSY: a device is open
pd = ibv.ibv_alloc_pd(ctx)
assert pd
buf = ctypes.create_string_buffer(8192)
mr = ibv.ibv_reg_mr(pd, buf, 8192, 1)
assert mr
assert not ibv.ibv_reg_mr(pd, 4096, 8192, 1) and ctypes.get_errno() == 14  # EFAULT: nothing is mapped there
assert ibv.ibv_dealloc_pd(pd) == 16  # EBUSY: it has a memory region
assert ibv.ibv_dereg_mr(mr) == 0
assert ibv.ibv_dealloc_pd(pd) == 0

# A child that inherited the device is refused, at once and in words; one that opens it itself is not our matter here.
pid = os.fork()
if pid == 0:
    os._exit(0 if not ibv.ibv_alloc_pd(ctx) and ctypes.get_errno() == 5 else 1)
assert os.waitpid(pid, 0)[1] == 0
pd = ibv.ibv_alloc_pd(ctx)
assert pd and ibv.ibv_dealloc_pd(pd) == 0

assert ibv.ibv_close_device(ctx) == 0
ibv.ibv_free_device_list(devices)
assert softnic.softnic_uninstall() == 0
home = os.path.join(os.environ["XDG_RUNTIME_DIR"], "gpuwire-%d" % os.getuid())
assert not os.path.exists(home), os.listdir(home)
print("ok")
