/* What gcc lacks of clang's language. Only the build with sanitizers uses gcc: zig has no run-time
 * library for the address sanitizer. */
#define __builtin_elementwise_max(a, b)                                                            \
    ({                                                                                             \
        const __typeof__(a) a_ = (a), b_ = (b);                                                    \
        const __typeof__(a_ > b_) mask_ = a_ > b_;                                                 \
        (__typeof__(a))(((__typeof__(mask_))a_ & mask_) | ((__typeof__(mask_))b_ & ~mask_));       \
    })
#define __builtin_elementwise_min(a, b) (-__builtin_elementwise_max(-(a), -(b)))
#define __builtin_reduce_or(m)                                                                     \
    ({                                                                                             \
        const __typeof__(m) m_ = (m);                                                              \
        __typeof__(m_[0] | 0) any_ = 0;                                                            \
        for (unsigned lane_ = 0; lane_ < sizeof m_ / sizeof m_[0]; lane_++) any_ |= m_[lane_];     \
        any_;                                                                                      \
    })
