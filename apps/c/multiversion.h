/* How a kernel is compiled twice: its body is inlined into one function for any processor and, on x86-64,
 * into another for AVX2 with fused multiply-add. */
#ifndef MULTIVERSION_H
#define MULTIVERSION_H

#define INLINE static inline __attribute__((always_inline))

#ifdef __x86_64__
#define MULTIVERSION(name, parameters, arguments)                                                                      \
    __attribute__((target("avx2,fma"))) static void name##_wide parameters                                             \
    {                                                                                                                  \
        name##_body arguments;                                                                                         \
    }                                                                                                                  \
    void name parameters                                                                                               \
    {                                                                                                                  \
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))                                           \
            name##_wide arguments;                                                                                     \
        else                                                                                                           \
            name##_body arguments;                                                                                     \
    }
#else
#define MULTIVERSION(name, parameters, arguments)                                                                      \
    void name parameters                                                                                               \
    {                                                                                                                  \
        name##_body arguments;                                                                                         \
    }
#endif

#endif
