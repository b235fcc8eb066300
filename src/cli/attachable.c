/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at an ELF file, and warns when the loader would not preload into it. */
#include "src/cli/attachable.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { MAX_HEADERS = 64, MAX_DYNAMIC = 256, MAX_SCRIPTS = 4 };

/* The file that execvp would run: along PATH if the name has no slash. */
static bool attachable_find(const char *program, char file[PATH_MAX])
{
    const char *path = getenv("PATH");

    if (strchr(program, '/')) return snprintf(file, PATH_MAX, "%s", program) < PATH_MAX;
    for (const char *at = path ? path : "/bin:/usr/bin"; *at;) {
        size_t len = strcspn(at, ":");
        int n = snprintf(file, PATH_MAX, "%.*s/%s", (int)len, len ? at : ".", program);
        if (n < PATH_MAX && !access(file, X_OK)) return true;
        at += len + (at[len] == ':');
    }
    return false;
}

/* Is it an executable that was linked to run at any address (static-pie), and not a library or the loader? */
static bool is_pie(int fd, const Elf64_Phdr *segment)
{
    Elf64_Dyn dyn[MAX_DYNAMIC];
    size_t bytes = segment->p_filesz < sizeof(dyn) ? (size_t)segment->p_filesz : sizeof(dyn);
    ssize_t n = pread(fd, dyn, bytes, (off_t)segment->p_offset);

    for (ssize_t i = 0; i < n / (ssize_t)sizeof(dyn[0]) && dyn[i].d_tag != DT_NULL; i++)
        if (dyn[i].d_tag == DT_FLAGS_1) return dyn[i].d_un.d_val & DF_1_PIE;
    return false;
}

/* Does no loader start it, which could preload something? */
static bool is_static(int fd, const Elf64_Ehdr *header)
{
    Elf64_Phdr segments[MAX_HEADERS];
    size_t count = header->e_phnum < MAX_HEADERS ? header->e_phnum : MAX_HEADERS;
    ssize_t n = pread(fd, segments, count * sizeof(segments[0]), (off_t)header->e_phoff);
    bool pie = false;

    if (header->e_phentsize != sizeof(segments[0]) || n != (ssize_t)(count * sizeof(segments[0])))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (segments[i].p_type == PT_INTERP) return false;
        if (segments[i].p_type == PT_DYNAMIC) pie = is_pie(fd, &segments[i]);
    }
    return header->e_type == ET_EXEC || pie;
}

/* Does the system take care that its caller does not meddle with it? */
static bool is_privileged(int fd)
{
    struct stat st;
    struct statvfs fs;
    char capabilities[64];

    if (fstat(fd, &st) || (!fstatvfs(fd, &fs) && fs.f_flag & ST_NOSUID)) return false;
    if (st.st_mode & S_ISUID && st.st_uid != getuid()) return true;
    if ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st.st_gid != getgid()) return true;
    return getuid() && fgetxattr(fd, "security.capability", capabilities, sizeof(capabilities)) > 0;
}

/* The interpreter that a script's first line names. */
static bool read_interpreter(int fd, char file[PATH_MAX])
{
    char line[256];
    ssize_t n = pread(fd, line, sizeof(line) - 1, 0);

    line[n > 0 ? n : 0] = 0;
    if (strncmp(line, "#!", 2)) return false;
    const char *name = line + 2 + strspn(line + 2, " \t");
    snprintf(file, PATH_MAX, "%.*s", (int)strcspn(name, " \t\n"), name);
    return file[0];
}

static const char *attachable_judge(int fd)
{
    Elf64_Ehdr header;

    if (is_privileged(fd))
        return "runs with more rights than its caller, so the system loads nothing of its caller's into it";
    if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG))
        return NULL;
    if (header.e_ident[EI_CLASS] == ELFCLASS32)
        return "is a program of 32 bits, which cannot load the software NIC";
    return is_static(fd, &header) ? "is statically linked, and loads no libraries" : NULL;
}

void gw_cli_warn_unattachable(const char *program)
{
    char file[PATH_MAX];
    const char *why = NULL;
    bool more = attachable_find(program, file);

    for (int i = 0; more && !why && i < MAX_SCRIPTS; i++) {
        char next[PATH_MAX];
        int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0) return; /* one may run what one may not read; and exec tells what is wrong better */
        why = attachable_judge(fd);
        more = !why && read_interpreter(fd, next);
        close(fd);
        if (more) memcpy(file, next, sizeof(file));
    }
    if (why) fprintf(stderr, "gpuwire run: %s %s: it sees the system's own devices\n", file, why);
}
