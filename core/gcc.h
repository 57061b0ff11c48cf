/* What gcc lacks of clang's language. Only the build with sanitizers uses gcc: zig has no run-time
 * library for the address sanitizer. */
#define __builtin_elementwise_max(a, b)                                                            \
    ({                                                                                             \
        const __typeof__(a) a_ = (a), b_ = (b);                                                    \
        const __typeof__(a_ > b_) mask_ = a_ > b_;                                                 \
        (__typeof__(a))(((__typeof__(mask_))a_ & mask_) | ((__typeof__(mask_))b_ & ~mask_));       \
    })
