/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy kernel, as text that the driver compiles: so the library is built without CUDA's compiler. See
 * kernel.h for what it is told.
 *
 * Warp 0 looks for commands, up to four in one look, and puts them into shared memory; then the whole block
 * executes one after the other. While long ones are copied the next look is on its way. It ends by its own
 * clock, whatever the host does, so no wait for it is long.
 */
#include "softnic/cuda/kernel.h"

#include <stddef.h>

/* Numbers of the text. */
_Static_assert(sizeof(((struct sn_kernel_ring *)0)->slot) == 8192 && SN_KERNEL_SLOTS == 64, "slots");
_Static_assert(offsetof(struct sn_kernel_ring, done) == 8192, "done");
_Static_assert(offsetof(struct sn_kernel_ring, alive) == 8200, "alive");
_Static_assert(offsetof(struct sn_kernel_ring, gone) == 8208, "gone");
_Static_assert(offsetof(struct sn_kernel_ring, stop) == 8256, "stop");
_Static_assert(sizeof(struct sn_kernel_command) == 4 * SN_KERNEL_WORDS, "command");
_Static_assert(offsetof(struct sn_kernel_command, bytes) == 24, "bytes");
_Static_assert(SN_KERNEL_THREADS == 256 && SN_KERNEL_HERE == 16777216, "threads, flag");

/* clang-format off */
#define LINE(s) " " s "\n"
#define EIGHT(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* Eight units per thread are under way at once, since each takes most of a microsecond. Units past the end
 * are left out. Between two of a thread's units lie k * 256. */
#define HAS(k) LINE("setp.gt.s32 %q" #k ", %left, 256*" #k ";")
#define LOOP(name, unit, load, store)                                                                        \
    name ":\n" EIGHT(HAS) load store                                                                         \
    LINE("add.u64 %from, %from, 2048*" #unit ";") LINE("add.u64 %to, %to, 2048*" #unit ";")                  \
    LINE("sub.s32 %left, %left, 2048;") LINE("setp.gt.s32 %p1, %left, 0;")                                   \
    LINE("@%p1 bra " name ";") LINE("bra COPIED;")

/* Weak accesses, past the first-level cache. The fences around order other readers and writers. */
#define LOAD16(k)                                                                                            \
    LINE("@%q" #k " ld.global.cg.v4.u32 {%a" #k ", %b" #k ", %c" #k ", %d" #k "}, [%from+4096*" #k "];")
#define STORE16(k) LINE("@%q" #k " st.global.v4.u32 [%to+4096*" #k "], {%a" #k ", %b" #k ", %c" #k ", %d" #k "};")
/* Short ones may be flags that other threads poll: each is read and written as one. */
#define LOAD8(k)  LINE("@%q" #k " ld.relaxed.sys.u64 %w" #k ", [%from+2048*" #k "];")
#define STORE8(k) LINE("@%q" #k " st.relaxed.sys.u64 [%to+2048*" #k "], %w" #k ";")
#define LOAD4(k)  LINE("@%q" #k " ld.relaxed.sys.u32 %a" #k ", [%from+1024*" #k "];")
#define STORE4(k) LINE("@%q" #k " st.relaxed.sys.u32 [%to+1024*" #k "], %a" #k ";")
#define LOAD1(k)  LINE("@%q" #k " ld.relaxed.sys.u8 %a" #k ", [%from+256*" #k "];")
#define STORE1(k) LINE("@%q" #k " st.relaxed.sys.u8 [%to+256*" #k "], %a" #k ";")

#define DECLARE                                                                                              \
    LINE(".shared .align 16 .b8 commands[256];") LINE(".shared .align 4 .b32 found;")                        \
    LINE(".reg .pred %p<8>, %q<8>, %first, %follower;")                                                      \
    LINE(".reg .b32 %me, %n, %i, %at, %units, %how, %left, %ahead, %r<16>, %a<8>, %b<8>, %c<8>, %d<8>;")            \
    LINE(".reg .b64 %ring, %next, %launch, %idle, %life, %start, %last, %now, %dst, %src, %from, %to, %x<8>, %y<2>, %w<8>;")

const char sn_kernel_text[] =
    ".version 6.4\n.target sm_70\n.address_size 64\n"
    ".visible .entry gw_copy(.param .u64 pring, .param .u64 pfirst, .param .u64 plaunch, .param .u64 pidle, "
    ".param .u64 plife)\n.maxntid 256, 1, 1\n{\n" DECLARE
    LINE("ld.param.u64 %ring, [pring];") LINE("ld.param.u64 %next, [pfirst];")
    LINE("ld.param.u64 %launch, [plaunch];") LINE("ld.param.u64 %idle, [pidle];")
    LINE("ld.param.u64 %life, [plife];") LINE("mov.u32 %me, %tid.x;")
    LINE("setp.eq.u32 %first, %me, 0;") LINE("setp.ge.u32 %follower, %me, 32;")
    LINE("mov.u64 %start, %globaltimer;") LINE("mov.u64 %last, %start;")
    LINE("@%first st.relaxed.sys.u64 [%ring+8200], %launch;") LINE("mov.u32 %ahead, 0;")

    /* Lane l reads word l % 16 of the l / 16th command awaited, and of the one two later. */
    "LOOK:\n" LINE("@%follower bra MEET;") LINE("bar.warp.sync 0xffffffff;")
    LINE("cvt.u32.u64 %r0, %next;") LINE("shr.u32 %r1, %me, 4;") LINE("and.b32 %r2, %me, 15;")
    LINE("add.u32 %r3, %r0, %r1;") LINE("add.u32 %r4, %r3, 2;")
    LINE("and.b32 %r5, %r3, 63;") LINE("and.b32 %r6, %r4, 63;")
    LINE("mad.lo.u32 %r5, %r5, 16, %r2;") LINE("mad.lo.u32 %r6, %r6, 16, %r2;")
    LINE("mad.wide.u32 %x0, %r5, 8, %ring;") LINE("mad.wide.u32 %x1, %r6, 8, %ring;")
    LINE("setp.ne.u32 %p7, %ahead, 0;") LINE("mov.u32 %ahead, 0;")
    LINE("@%p7 mov.u64 %x2, %y0;") LINE("@%p7 mov.u64 %x3, %y1;") LINE("@%p7 mov.u64 %x4, 0;")
    LINE("@!%p7 ld.relaxed.sys.u64 %x2, [%x0];") LINE("@!%p7 ld.relaxed.sys.u64 %x3, [%x1];")
    LINE("@!%p7 ld.relaxed.sys.u64 %x4, [%ring+8256];") LINE("mov.u64 %now, %globaltimer;")
    LINE("mov.b64 {%r7, %r8}, %x2;") LINE("mov.b64 {%r9, %r10}, %x3;")
    LINE("setp.eq.u32 %p1, %r8, %r3;") LINE("setp.eq.u32 %p2, %r10, %r4;")
    LINE("vote.sync.ballot.b32 %r11, %p1, 0xffffffff;") LINE("vote.sync.ballot.b32 %r12, %p2, 0xffffffff;")

    /* Its time is over. The command's place is the host's again. */
    LINE("sub.u64 %x5, %now, %start;") LINE("setp.gt.u64 %p3, %x5, %life;") LINE("@%p3 bra LEAVE;")

    /* How many are there, one after the other? */
    LINE("mov.u32 %n, 0;")
    LINE("and.b32 %r13, %r11, 65535;") LINE("setp.ne.u32 %p4, %r13, 65535;") LINE("@%p4 bra COUNTED;")
    LINE("mov.u32 %n, 1;")
    LINE("shr.u32 %r13, %r11, 16;") LINE("setp.ne.u32 %p4, %r13, 65535;") LINE("@%p4 bra COUNTED;")
    LINE("mov.u32 %n, 2;")
    LINE("and.b32 %r13, %r12, 65535;") LINE("setp.ne.u32 %p4, %r13, 65535;") LINE("@%p4 bra COUNTED;")
    LINE("mov.u32 %n, 3;")
    LINE("shr.u32 %r13, %r12, 16;") LINE("setp.ne.u32 %p4, %r13, 65535;") LINE("@%p4 bra COUNTED;")
    LINE("mov.u32 %n, 4;")
    "COUNTED:\n" LINE("setp.ne.u32 %p5, %n, 0;") LINE("@%p5 bra GOT;")
    LINE("setp.eq.u64 %p6, %x4, %launch;") LINE("@%p6 bra LEAVE;")
    LINE("sub.u64 %x5, %now, %last;") LINE("setp.gt.u64 %p3, %x5, %idle;") LINE("@%p3 bra LEAVE;")
    LINE("bra LOOK;")
    "LEAVE:\n" LINE("mov.u32 %n, 0xffffffff;")

    "GOT:\n" LINE("mov.u64 %last, %now;") LINE("mov.u32 %r14, commands;")
    LINE("mad.lo.u32 %r13, %me, 4, %r14;")
    LINE("st.shared.u32 [%r13], %r7;") LINE("st.shared.u32 [%r13+128], %r9;")
    LINE("@%first st.shared.u32 [found], %n;")
    /* Acquire: what is copied is read after the commands were, and not from what a cache kept. Half a
     * microsecond that commands which bring their bytes along do not need: is there another, by its word
     * 5? */
    LINE("setp.eq.u32 %p1, %r2, 5;")
    LINE("and.b32 %r13, %r7, 16777216;") LINE("setp.eq.and.u32 %p2, %r13, 0, %p1;")
    LINE("setp.lt.and.u32 %p2, %r1, %n, %p2;")
    LINE("and.b32 %r13, %r9, 16777216;") LINE("setp.eq.and.u32 %p3, %r13, 0, %p1;")
    LINE("add.u32 %r13, %r1, 2;") LINE("setp.lt.and.u32 %p3, %r13, %n, %p3;")
    LINE("or.pred %p2, %p2, %p3;") LINE("vote.sync.any.pred %p2, %p2, 0xffffffff;")
    LINE("@%p2 fence.acq_rel.sys;")
    /* While long ones are copied (word 4: 2,048 units or more) the look for the next ones is on its way.
     * The end of short ones would wait for it. */
    LINE("setp.eq.u32 %p1, %r2, 4;")
    LINE("setp.gt.and.u32 %p2, %r7, 2047, %p1;") LINE("setp.lt.and.u32 %p2, %r1, %n, %p2;")
    LINE("setp.gt.and.u32 %p3, %r9, 2047, %p1;")
    LINE("add.u32 %r13, %r1, 2;") LINE("setp.lt.and.u32 %p3, %r13, %n, %p3;")
    LINE("or.pred %p2, %p2, %p3;") LINE("vote.sync.any.pred %p2, %p2, 0xffffffff;") LINE("@!%p2 bra MEET;")
    LINE("mov.u32 %ahead, 1;") LINE("add.u32 %r3, %r3, %n;") LINE("add.u32 %r4, %r4, %n;")
    LINE("and.b32 %r5, %r3, 63;") LINE("and.b32 %r6, %r4, 63;")
    LINE("mad.lo.u32 %r5, %r5, 16, %r2;") LINE("mad.lo.u32 %r6, %r6, 16, %r2;")
    LINE("mad.wide.u32 %x0, %r5, 8, %ring;") LINE("mad.wide.u32 %x1, %r6, 8, %ring;")
    LINE("ld.relaxed.sys.u64 %y0, [%x0];") LINE("ld.relaxed.sys.u64 %y1, [%x1];")
    "MEET:\n" LINE("bar.sync 0;") LINE("ld.shared.u32 %n, [found];")
    LINE("setp.eq.u32 %p1, %n, 0xffffffff;") LINE("@%p1 bra END;") LINE("mov.u32 %i, 0;")

    "NEXT:\n" LINE("mov.u32 %at, commands;") LINE("mad.lo.u32 %at, %i, 64, %at;")
    LINE("ld.shared.u64 %dst, [%at];") LINE("ld.shared.u64 %src, [%at+8];")
    LINE("ld.shared.u32 %units, [%at+16];") LINE("ld.shared.u32 %how, [%at+20];")
    LINE("and.b32 %r0, %how, 16777216;") LINE("setp.eq.u32 %p1, %r0, 0;") LINE("@%p1 bra ELSEWHERE;")
    LINE("cvt.u64.u32 %x0, %at;") LINE("add.u64 %x0, %x0, 24;") LINE("cvta.shared.u64 %src, %x0;")
    "ELSEWHERE:\n" LINE("and.b32 %r1, %how, 255;")
    LINE("bfe.u32 %r2, %how, 8, 8;") LINE("bfe.u32 %r3, %how, 16, 8;")
    /* The odd bytes before and after the units. */
    LINE("cvt.u64.u32 %x6, %me;")
    LINE("setp.ge.u32 %p1, %me, %r2;") LINE("@%p1 bra HEADED;")
    LINE("add.u64 %x0, %src, %x6;") LINE("add.u64 %x1, %dst, %x6;")
    LINE("ld.relaxed.sys.u8 %r4, [%x0];") LINE("st.relaxed.sys.u8 [%x1], %r4;")
    "HEADED:\n" LINE("cvt.u64.u32 %x2, %r2;") LINE("add.u64 %src, %src, %x2;") LINE("add.u64 %dst, %dst, %x2;")
    LINE("setp.ge.u32 %p1, %me, %r3;") LINE("@%p1 bra TAILED;")
    LINE("shl.b32 %r5, %units, %r1;") LINE("add.u32 %r5, %r5, %me;") LINE("cvt.u64.u32 %x3, %r5;")
    LINE("add.u64 %x0, %src, %x3;") LINE("add.u64 %x1, %dst, %x3;")
    LINE("ld.relaxed.sys.u8 %r4, [%x0];") LINE("st.relaxed.sys.u8 [%x1], %r4;")

    "TAILED:\n" LINE("sub.s32 %left, %units, %me;") LINE("setp.le.s32 %p1, %left, 0;") LINE("@%p1 bra COPIED;")
    LINE("shl.b64 %x4, %x6, %r1;") LINE("add.u64 %from, %src, %x4;") LINE("add.u64 %to, %dst, %x4;")
    LINE("setp.eq.u32 %p2, %r1, 4;") LINE("@%p2 bra UNIT16;")
    LINE("setp.eq.u32 %p2, %r1, 3;") LINE("@%p2 bra UNIT8;")
    LINE("setp.eq.u32 %p2, %r1, 2;") LINE("@%p2 bra UNIT4;")
    LOOP("UNIT1", 1, EIGHT(LOAD1), EIGHT(STORE1))
    LOOP("UNIT4", 4, EIGHT(LOAD4), EIGHT(STORE4))
    LOOP("UNIT8", 8, EIGHT(LOAD8), EIGHT(STORE8))
    LOOP("UNIT16", 16, EIGHT(LOAD16), EIGHT(STORE16))

    /* All of it is stored: the barrier, and one thread's fence, which counts for what the barrier made it
     * see. */
    "COPIED:\n" LINE("bar.warp.sync 0xffffffff;") LINE("bar.sync 0;") LINE("add.u32 %i, %i, 1;") LINE("setp.lt.u32 %p3, %i, %n;")
    LINE("@!%p3 bra LAST;")
    /* A kernel of this GPU that sees what the next command brings is to see this one's. */
    LINE("@%first fence.acq_rel.gpu;") LINE("bar.sync 0;") LINE("bra NEXT;")
    "LAST:\n" LINE("cvt.u64.u32 %x0, %n;") LINE("add.u64 %next, %next, %x0;")
    LINE("@!%first bra LOOK;")
    /* Release, to all: done is not seen before what was done. */
    LINE("fence.acq_rel.sys;") LINE("sub.u64 %x1, %next, 1;") LINE("st.relaxed.sys.u64 [%ring+8192], %x1;")
    LINE("bra LOOK;")

    /* Gone is not seen before the last done. */
    "END:\n" LINE("@!%first bra OUT;") LINE("fence.acq_rel.sys;") LINE("st.relaxed.sys.u64 [%ring+8208], %launch;")
    "OUT:\n" LINE("ret;") "}\n";
