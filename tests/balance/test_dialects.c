/* SPDX-License-Identifier: Apache-2.0 */
/* Files in the dialects of keepalived's: what each is read as. Beside NAME.conf stands NAME.says. It has the
 * mistakes and notes, then the services as `gpuwire balance save` prints them.
 *
 *     test_dialects FOLDER           compares
 *     test_dialects FOLDER --write   writes NAME.says, to be read by a person
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/balance/control/config.h"

static char *text_of(const char *file)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = fopen(file, "re");
    if (!f || getdelim(&text, &n, 0, f) < 0) {
        free(text);
        text = NULL;
    }
    if (f) fclose(f);
    return text;
}

static int reads_back(const char *model)
{
    struct gw_bal_config c;
    char *text = strdup(model);
    int error = gw_bal_config_parse("saved", text, &c);
    char *again = error ? NULL : gw_bal_config_write(&c.model);
    int same = again && !strcmp(again, model);
    free(again);
    free(text);
    gw_bal_config_free(&c);
    return same;
}

/* What is said of a file, and what it is read as. */
static char *reading_of(const char *file)
{
    struct gw_bal_config c;
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    int error = gw_bal_config_read(file, &c);
    char *model = error ? NULL : gw_bal_config_write(&c.model);
    gw_bal_report_print(&c.report, f, "");
    if (model) fputs(model, f);
    if (model && !reads_back(model)) fprintf(f, "and this does not read back into itself\n");
    fclose(f);
    free(model);
    gw_bal_config_free(&c);
    return text;
}

static int compare(const char *file, int writes)
{
    char says[256];
    snprintf(says, sizeof(says), "%.*s.says", (int)(strlen(file) - 5), file);
    char *wanted = writes ? NULL : text_of(says), *got = reading_of(file);
    int same = wanted && got && !strcmp(wanted, got);
    FILE *f = writes ? fopen(says, "we") : NULL;
    if (f) {
        fputs(got, f);
        fclose(f);
    } else if (!same)
        fprintf(stderr, "%s is read as\n%s\nand not as %s says:\n%s\n", file, got ? got : "", says,
                wanted ? wanted : "(there is no such file)");
    free(wanted);
    free(got);
    return same || f;
}

int main(int argc, char **argv)
{
    glob_t found;
    int writes = argc > 2 && !strcmp(argv[2], "--write"), wrong = 0;
    if (argc < 2 || chdir(argv[1]) || glob("*.conf", 0, NULL, &found)) {
        fprintf(stderr, "usage: test_dialects FOLDER [--write]\n");
        return 2;
    }
    for (size_t i = 0; i < found.gl_pathc; i++) wrong += !compare(found.gl_pathv[i], writes);
    printf("%zu files, %d wrong\n", found.gl_pathc, wrong);
    globfree(&found);
    return wrong != 0;
}
