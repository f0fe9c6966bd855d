/* SPDX-License-Identifier: Apache-2.0 */
/* Which numbers are element types and operations, and how long an element is. The wire, the
 * registry of state and the kernels read this one table. What the operations do is the business of
 * src/reduce. */
#ifndef SPOTNIK_BASE_DTYPE_H
#define SPOTNIK_BASE_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "spotnik/spotnik.h"

/* of those that hold one number an element; SPOTNIK_Q8 follows */
#define SPOTNIK_DTYPE_LAST SPOTNIK_U64
#define SPOTNIK_DTYPE_BYTES_MAX 256
#define SPOTNIK_OP_LAST SPOTNIK_PRODUCT

/* Bytes of one element; 0 for what is no spotnik_dtype, so a caller may ask it about bytes from the
 * wire. */
static inline uint32_t spotnik_dtype_bytes(uint64_t dtype)
{
    switch (dtype) {
    case SPOTNIK_U8:
    case SPOTNIK_I8:
        return 1;
    case SPOTNIK_F16:
    case SPOTNIK_BF16:
    case SPOTNIK_I16:
    case SPOTNIK_U16:
        return 2;
    case SPOTNIK_F32:
    case SPOTNIK_I32:
    case SPOTNIK_U32:
        return 4;
    case SPOTNIK_F64:
    case SPOTNIK_I64:
    case SPOTNIK_U64:
        return 8;
    case SPOTNIK_Q8: /* a block of them: src/reduce/compress.h */
        return 256;
    }
    return 0;
}

static inline bool spotnik_op_is_known(uint64_t op)
{
    return op >= SPOTNIK_SUM && op <= SPOTNIK_OP_LAST;
}

#endif
