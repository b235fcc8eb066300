/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's management library as a machine with three GPUs has it, one of which does not answer and one of
 * which does not tell its power. */
#pragma GCC visibility push(default)
int nvmlInit_v2(void);
int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out);
int nvmlDeviceGetUUID(void *d, char *text, unsigned bytes);
int nvmlDeviceGetUtilizationRates(void *d, unsigned out[2]);
int nvmlDeviceGetMemoryInfo(void *d, unsigned long long out[3]);
int nvmlDeviceGetPowerUsage(void *d, unsigned *milliwatts);
#pragma GCC visibility pop

static char gpus[3];

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = 3;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out)
{
    *out = &gpus[i];
    return i == 1 ? 15 : 0; /* it is lost */
}

int nvmlDeviceGetUUID(void *d, char *text, unsigned bytes)
{
    static const char name[] = "GPU-0";
    if (bytes < sizeof(name)) return 7;
    for (unsigned i = 0; i < sizeof(name); i++) text[i] = name[i];
    text[4] = (char)('0' + ((char *)d - gpus));
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *d, unsigned out[2])
{
    out[0] = d == &gpus[0] ? 25 : 100;
    out[1] = 7;
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *d, unsigned long long out[3])
{
    (void)d;
    out[0] = 1000;
    out[1] = 400;
    out[2] = 600;
    return 0;
}

int nvmlDeviceGetPowerUsage(void *d, unsigned *milliwatts)
{
    *milliwatts = 70500;
    return d == &gpus[0] ? 0 : 3;
}
