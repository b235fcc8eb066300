/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the import tables of loaded libraries, and replaces entries in them. */
#include "softnic/attach/got.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>

#if defined(__x86_64__)
#define RELOC_TYPE(info) ELF64_R_TYPE(info)
#define IS_IMPORT(type)  ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
#elif defined(__aarch64__)
#define RELOC_TYPE(info) ELF64_R_TYPE(info)
#define IS_IMPORT(type)                                                                                      \
    ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_ABS64)
#else
#error "the import tables of this machine's libraries have another form"
#endif

#define MAX_PATCHED 4096

struct patched {
    void **slot;
    void *before, *after;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct patched patched[MAX_PATCHED];
static size_t patched_count;

/* The contents of a PT_DYNAMIC section, as addresses that can be read. */
struct image {
    uintptr_t base;
    const Elf64_Sym *symbols;
    const char *strings, *soname;
    const Elf64_Rela *rela[2];
    size_t rela_count[2];
    uintptr_t relro_start, relro_end;
};

struct request {
    const char *const *libs;
    bool all_but; /* `libs` are those that are left alone */
    uintptr_t at; /* not 0: only what has this address */
    const struct sn_hook *hooks;
    size_t count;
    int changed;
};

/* The loader turns these entries into addresses in place on most machines, and leaves offsets on others. */
static const void *dynamic_address(const struct image *im, uintptr_t value)
{
    return (const void *)(value < im->base ? im->base + value : value);
}

static bool read_image(const struct dl_phdr_info *info, struct image *im)
{
    const Elf64_Dyn *dyn = NULL;
    size_t soname = 0;

    memset(im, 0, sizeof(*im));
    im->base = info->dlpi_addr;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_DYNAMIC) dyn = (const Elf64_Dyn *)(im->base + p->p_vaddr);
        if (p->p_type == PT_GNU_RELRO) {
            im->relro_start = im->base + p->p_vaddr;
            im->relro_end = im->relro_start + p->p_memsz;
        }
    }
    if (!dyn) return false;
    for (; dyn->d_tag != DT_NULL; dyn++) {
        switch (dyn->d_tag) {
        case DT_SYMTAB: im->symbols = dynamic_address(im, dyn->d_un.d_ptr); break;
        case DT_STRTAB: im->strings = dynamic_address(im, dyn->d_un.d_ptr); break;
        case DT_SONAME: soname = dyn->d_un.d_val; break;
        case DT_JMPREL: im->rela[0] = dynamic_address(im, dyn->d_un.d_ptr); break;
        case DT_PLTRELSZ: im->rela_count[0] = dyn->d_un.d_val / sizeof(Elf64_Rela); break;
        case DT_RELA: im->rela[1] = dynamic_address(im, dyn->d_un.d_ptr); break;
        case DT_RELASZ: im->rela_count[1] = dyn->d_un.d_val / sizeof(Elf64_Rela); break;
        }
    }
    if (im->strings && soname) im->soname = im->strings + soname;
    return im->symbols && im->strings;
}

/* Tables of libraries linked with -z relro -z now are read-only once loaded: open the page, write, close it
 * again. */
static int write_slot(const struct image *im, void **slot, void *value)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)slot & ~(page - 1);
    bool readonly = (uintptr_t)slot >= im->relro_start && (uintptr_t)slot < im->relro_end;

    if (readonly && mprotect((void *)start, page, PROT_READ | PROT_WRITE)) return -EACCES;
    /* One aligned store: a thread that calls through the slot at that time reaches the old or the new
     * function.
     */
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    if (readonly) mprotect((void *)start, page, PROT_READ);
    return 0;
}

static int patch_slot(const struct image *im, void **slot, void *replacement)
{
    GW_ASSERT_HELD(&lock);
    void *before = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (before == replacement) return 0;
    if (patched_count == MAX_PATCHED) return -ENOMEM;
    int err = write_slot(im, slot, replacement);
    if (err) return err;
    patched[patched_count++] = (struct patched){slot, before, replacement};
    return 1;
}

static int patch_image(const struct image *im, struct request *rq)
{
    for (int table = 0; table < 2; table++) {
        for (size_t i = 0; im->rela[table] && i < im->rela_count[table]; i++) {
            const Elf64_Rela *r = &im->rela[table][i];
            if (!IS_IMPORT(RELOC_TYPE(r->r_info))) continue;
            const Elf64_Sym *sym = &im->symbols[ELF64_R_SYM(r->r_info)];
            const char *name = im->strings + sym->st_name;
            for (size_t h = 0; h < rq->count; h++) {
                const char *symbol = rq->hooks[h].symbol;
                if (*name != *symbol || strcmp(name, symbol)) continue; /* most differ at once: no call */
                int err = patch_slot(im, (void **)(im->base + r->r_offset), rq->hooks[h].replacement);
                if (err < 0) return err;
                rq->changed += err;
            }
        }
    }
    return 0;
}

static bool is_one_of(const char *path, const char *const *libs)
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    for (; *libs; libs++)
        if (!strncmp(base, *libs, strlen(*libs))) return true;
    return false;
}

static bool got_holds(const struct dl_phdr_info *info, uintptr_t at)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && at - (info->dlpi_addr + p->p_vaddr) < p->p_memsz) return true;
    }
    return false;
}

static int visit_patch(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct request *rq = arg;
    struct image im;
    (void)size;

    if (!info->dlpi_name || (rq->at && !got_holds(info, rq->at)) || !read_image(info, &im)) return 0;
    bool listed = is_one_of(info->dlpi_name, rq->libs) || (im.soname && is_one_of(im.soname, rq->libs));
    return listed == rq->all_but ? 0 : patch_image(&im, rq);
}

static int patch(struct request *rq)
{
    pthread_mutex_lock(&lock);
    int err = dl_iterate_phdr(visit_patch, rq);
    pthread_mutex_unlock(&lock);
    return err < 0 ? err : rq->changed;
}

int sn_got_patch(const char *const *libs, const struct sn_hook *hooks, size_t count)
{
    return patch(&(struct request){.libs = libs, .hooks = hooks, .count = count});
}

int sn_got_patch_all_but(const char *const *libs, const struct sn_hook *hooks, size_t count)
{
    return patch(&(struct request){.libs = libs, .all_but = true, .hooks = hooks, .count = count});
}

const char *const sn_got_system[] = {
    "libgpuwire-softnic.so", "libc.so", "ld-linux", "libasan", "libtsan", "libubsan", "linux-vdso", NULL};

int sn_got_patch_at(const void *address, const struct sn_hook *hooks, size_t count)
{
    return patch(&(struct request){
        .libs = sn_got_system, .all_but = true, .at = (uintptr_t)address, .hooks = hooks, .count = count});
}

static int visit_restore(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct image im;
    (void)size;
    (void)arg;

    GW_ASSERT_HELD(&lock);
    if (!read_image(info, &im)) return 0;
    uintptr_t end = im.base;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && im.base + p->p_vaddr + p->p_memsz > end)
            end = im.base + p->p_vaddr + p->p_memsz;
    }
    for (size_t i = 0; i < patched_count; i++) {
        void **slot = patched[i].slot;
        if ((uintptr_t)slot < im.base || (uintptr_t)slot >= end) continue;
        if (__atomic_load_n(slot, __ATOMIC_ACQUIRE) == patched[i].after)
            write_slot(&im, slot, patched[i].before);
    }
    return 0;
}

void sn_got_restore(void)
{
    pthread_mutex_lock(&lock);
    dl_iterate_phdr(visit_restore, NULL);
    patched_count = 0;
    pthread_mutex_unlock(&lock);
}
