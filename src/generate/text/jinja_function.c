/* SPDX-License-Identifier: Apache-2.0 */
/* Functions (range, namespace, dict, raise_exception, strftime_now) and arithmetic, as Python's. */
#include "src/generate/text/jinja_function.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "src/generate/text/jinja_ast.h"
#include "src/generate/text/jinja_print.h"
#include "src/generate/text/limits.h"

/* As many numbers as one range may have; Jinja's sandbox has the same limit. */
#define MAX_RANGE 100000

static bool fn_range(struct gen_jinja *j, const struct gen_jargs *args, struct gen_jvalue *out)
{
    int64_t from = 0, to = 0, step = 1;
    bool one = args->values.count < 2;
    if (!gen_j_arg_int(j, args, 0, NULL, one ? &to : &from) ||
        !gen_j_arg_int(j, args, 1, NULL, one ? &step : &to) || !gen_j_arg_int(j, args, 2, NULL, &step) ||
        !gen_j_list(j, out))
        return false;
    if (!step) return gen_j_fail(j, -EINVAL, "the step of a range is 0");
    for (int64_t i = from; step > 0 ? i < to : i > to;) {
        struct gen_jvalue v = gen_j_int(i);
        if (out->list->count == MAX_RANGE)
            return gen_j_fail(j, -E2BIG, "a range has more than %d numbers", MAX_RANGE);
        if (!gen_j_push(j, out->list, &v)) return false;
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return true;
}

/* namespace(a=1) and dict(a=1), maybe of another mapping. */
static bool fn_mapping(struct gen_jinja *j, enum gen_jkind kind, const struct gen_jargs *args,
                       struct gen_jvalue *out)
{
    const struct gen_jvalue *from = gen_j_arg(args, 0, NULL);
    if (!gen_j_dict(j, kind, out)) return false;
    for (size_t i = 0; from && from->kind == GEN_J_DICT && i < from->dict->keys.count; i++) {
        if (!gen_j_put(j, out->dict, &from->dict->keys.at[i], &from->dict->values.at[i])) return false;
    }
    for (size_t i = 0; i < args->names.count; i++) {
        if (!gen_j_put(j, out->dict, &args->names.at[i], &args->named.at[i])) return false;
    }
    return true;
}

/* The text is a stranger's at times: its control characters do not belong in an error. */
static bool fn_raise(struct gen_jinja *j, const struct gen_jargs *args)
{
    struct gen_jtext text = {.at = "the template refuses the messages", .bytes = 33};
    char plain[200];
    size_t n = 0;
    if (!gen_j_arg_text(j, args, 0, "message", &text)) return false;
    for (; n < text.bytes && n < sizeof(plain) - 1; n++)
        plain[n] = (unsigned char)text.at[n] < ' ' || text.at[n] == 0x7F ? ' ' : text.at[n];
    plain[n] = 0;
    return gen_j_fail(j, -EINVAL, "%s", plain);
}

static bool fn_strftime(struct gen_jinja *j, const struct gen_jargs *args, struct gen_jvalue *out)
{
    struct gen_jtext format = {0};
    char how[128], text[512];
    if (!gen_j_arg_text(j, args, 0, "format", &format)) return false;
    if (format.bytes >= sizeof(how))
        return gen_j_fail(j, -E2BIG, "a format of time has more than %zu bytes", sizeof(how) - 1);
    if (format.bytes) memcpy(how, format.at, format.bytes);
    how[format.bytes] = 0;
    time_t now = time(NULL);
    struct tm tm;
    localtime_r(&now, &tm);
    size_t n = strftime(text, sizeof(text), how, &tm);
    struct gen_jtext made = {.at = text, .bytes = n, .foreign = format.foreign ? gen_jinja_all : NULL};
    struct gen_marked m = {.marks = true};
    gen_j_write(&m, &made);
    return gen_j_made(j, &m, out);
}

bool gen_jfunction_call(struct gen_jinja *j, enum gen_jfunction which, const struct gen_jargs *args,
                        struct gen_jvalue *out)
{
    switch (which) {
    case GEN_JX_RANGE: return fn_range(j, args, out);
    case GEN_JX_NAMESPACE: return fn_mapping(j, GEN_J_NAMESPACE, args, out);
    case GEN_JX_DICT: return fn_mapping(j, GEN_J_DICT, args, out);
    case GEN_JX_RAISE: return fn_raise(j, args);
    default: return fn_strftime(j, args, out);
    }
}

/* ---- arithmetic */

static bool op_fail(struct gen_jinja *j, const struct gen_jvalue *a, const struct gen_jvalue *b)
{
    const struct gen_jvalue *lost = a->kind == GEN_J_UNDEFINED ? a : b->kind == GEN_J_UNDEFINED ? b : NULL;
    if (lost)
        return gen_j_fail(j, -EINVAL, "'%.*s' is undefined",
                          (int)(lost->text.bytes < 60 ? lost->text.bytes : 60),
                          lost->text.at ? lost->text.at : "");
    return gen_j_fail(j, -EINVAL, "%s and %s do not go together with this operator", gen_j_type(a),
                      gen_j_type(b));
}

static bool op_join(struct gen_jinja *j, const struct gen_jvalue *a, const struct gen_jvalue *b,
                    struct gen_jvalue *out)
{
    struct gen_marked made = {.marks = true};
    bool done = gen_j_print(j, a, &made) && gen_j_print(j, b, &made);
    return gen_j_made(j, &made, out) && done;
}

static bool op_append(struct gen_jinja *j, const struct gen_jlist *a, const struct gen_jlist *b,
                      struct gen_jvalue *out)
{
    if (!gen_j_list(j, out)) return false;
    for (size_t i = 0; i < a->count + b->count; i++) {
        if (!gen_j_push(j, out->list, i < a->count ? &a->at[i] : &b->at[i - a->count])) return false;
    }
    return true;
}

/* A text or a list, several times. */
static bool op_repeat(struct gen_jinja *j, const struct gen_jvalue *what, int64_t times,
                      struct gen_jvalue *out)
{
    size_t n = times < 0 ? 0 : (size_t)times,
           size = what->kind == GEN_J_TEXT ? what->text.bytes : what->list->count;
    if (size && n > GEN_MAX_PROMPT / size) return gen_j_fail(j, -E2BIG, "a value is repeated too often");
    if (!gen_j_work(j, 1 + n * size / 16)) return false;
    if (what->kind == GEN_J_TEXT) {
        struct gen_marked made = {.marks = true};
        for (size_t i = 0; size && i < n; i++) gen_j_write(&made, &what->text);
        return gen_j_made(j, &made, out);
    }
    if (!gen_j_list(j, out)) return false;
    for (size_t i = 0; i < n * size; i++) {
        if (!gen_j_push(j, out->list, &what->list->at[i % size])) return false;
    }
    return true;
}

static double op_real(const struct gen_jvalue *v)
{
    return v->kind == GEN_J_FLOAT ? v->real : (double)v->number;
}

static bool op_is_number(const struct gen_jvalue *v)
{
    return v->kind == GEN_J_INT || v->kind == GEN_J_FLOAT || v->kind == GEN_J_BOOL;
}

static bool op_reals(struct gen_jinja *j, int op, double a, double b, struct gen_jvalue *out)
{
    *out = (struct gen_jvalue){.kind = GEN_J_FLOAT};
    if ((op == '/' || op == '%' || op == GEN_JO_FLOOR) && b == 0)
        return gen_j_fail(j, -EINVAL, "division by zero");
    switch (op) {
    case '+': out->real = a + b; break;
    case '-': out->real = a - b; break;
    case '*': out->real = a * b; break;
    case '/': out->real = a / b; break;
    case '%': out->real = a - b * floor(a / b); break;
    case GEN_JO_FLOOR: out->real = floor(a / b); break;
    default: out->real = pow(a, b);
    }
    return true;
}

/* Yes: the power fits. */
static bool op_power(int64_t base, int64_t exponent, int64_t *out)
{
    int64_t result = 1;
    if (base >= -1 && base <= 1) exponent = base < 0 ? exponent & 1 : exponent > 0;
    for (int64_t i = 0; i < exponent; i++) {
        if (__builtin_mul_overflow(result, base, &result)) return false;
    }
    *out = result;
    return true;
}

/* Whole numbers; Python rounds a quotient down. */
static bool op_ints(struct gen_jinja *j, int op, int64_t a, int64_t b, struct gen_jvalue *out)
{
    bool fits = true;
    *out = gen_j_int(0);
    if (op == '+') {
        fits = !__builtin_add_overflow(a, b, &out->number);
    } else if (op == '-') {
        fits = !__builtin_sub_overflow(a, b, &out->number);
    } else if (op == '*') {
        fits = !__builtin_mul_overflow(a, b, &out->number);
    } else if (op == GEN_JO_POWER && b >= 0) {
        fits = op_power(a, b, &out->number);
    } else if (op == '/' || op == GEN_JO_POWER) {
        return op_reals(j, op, (double)a, (double)b, out);
    } else if (!b) {
        return gen_j_fail(j, -EINVAL, "division by zero");
    } else if (b == -1) {
        fits = op == '%' || !__builtin_sub_overflow(0, a, &out->number);
    } else {
        int64_t rest = a % b;
        bool down = rest && (rest < 0) != (b < 0);
        out->number = op == '%' ? rest + (down ? b : 0) : a / b - down;
    }
    return fits || gen_j_fail(j, -EINVAL, "a number is too large");
}

bool gen_j_binary(struct gen_jinja *j, int op, const struct gen_jvalue *a, const struct gen_jvalue *b,
                  struct gen_jvalue *out)
{
    if (op == '~') return op_join(j, a, b, out);
    if (op_is_number(a) && op_is_number(b)) {
        if (a->kind == GEN_J_FLOAT || b->kind == GEN_J_FLOAT)
            return op_reals(j, op, op_real(a), op_real(b), out);
        return op_ints(j, op, a->number, b->number, out);
    }
    if (op == '+' && a->kind == GEN_J_TEXT && b->kind == GEN_J_TEXT) return op_join(j, a, b, out);
    if (op == '+' && a->kind == GEN_J_LIST && b->kind == GEN_J_LIST)
        return op_append(j, a->list, b->list, out);
    bool many = a->kind == GEN_J_TEXT || a->kind == GEN_J_LIST,
         times = b->kind == GEN_J_INT || b->kind == GEN_J_BOOL;
    if (op == '*' && many && times) return op_repeat(j, a, b->number, out);
    if (op == '*' && (b->kind == GEN_J_TEXT || b->kind == GEN_J_LIST) &&
        (a->kind == GEN_J_INT || a->kind == GEN_J_BOOL))
        return op_repeat(j, b, a->number, out);
    return op_fail(j, a, b);
}
