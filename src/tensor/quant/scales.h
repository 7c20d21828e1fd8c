/* The packings of small scales that several block formats share. Not here: the search for good scales. */
#ifndef PLAIT_TENSOR_QUANT_SCALES_H
#define PLAIT_TENSOR_QUANT_SCALES_H

#include <stdint.h>

/* Q4_K and Q5_K: 8 scales and 8 minimums of 6 bits in 12 bytes. Bytes 0-3 hold scales 0-3 and bytes 4-7
 * minimums 0-3 in their low 6 bits; the low nibbles of bytes 8-11 are scales 4-7, the high nibbles minimums
 * 4-7, and their upper two bits lie in the top bits of bytes 0-3 and 4-7. */
static inline void plait_scales_6bit_pairs_unpack(const uint8_t packed[12], uint8_t scales[8],
                                                  uint8_t mins[8]) {
    for (int j = 0; j < 4; j++) {
        scales[j] = packed[j] & 63;
        mins[j] = packed[j + 4] & 63;
        scales[j + 4] = (uint8_t)((packed[j + 8] & 15) | (packed[j] >> 6) << 4);
        mins[j + 4] = (uint8_t)(packed[j + 8] >> 4 | (packed[j + 4] >> 6) << 4);
    }
}

static inline void plait_scales_6bit_pairs_pack(const uint8_t scales[8], const uint8_t mins[8],
                                                uint8_t packed[12]) {
    for (int j = 0; j < 4; j++) {
        packed[j] = (uint8_t)(scales[j] | (scales[j + 4] >> 4) << 6);
        packed[j + 4] = (uint8_t)(mins[j] | (mins[j + 4] >> 4) << 6);
        packed[j + 8] = (uint8_t)((scales[j + 4] & 15) | (mins[j + 4] & 15) << 4);
    }
}

/* Q3_K: 16 scales of 6 bits, stored plus 32. Byte j & 7 holds the low nibble of scale j, in its high half for
 * j >= 8; bits 2(j/4) of byte 8 + j%4 are the upper two. */
static inline void plait_scales_6bit_signed_unpack(const uint8_t packed[12], int8_t scales[16]) {
    for (int j = 0; j < 16; j++) {
        int low = packed[j & 7] >> (j >= 8 ? 4 : 0) & 15;
        int high = packed[8 + j % 4] >> (2 * (j / 4)) & 3;
        scales[j] = (int8_t)((low | high << 4) - 32);
    }
}

static inline void plait_scales_6bit_signed_pack(const int8_t scales[16], uint8_t packed[12]) {
    for (int j = 0; j < 12; j++) packed[j] = 0;
    for (int j = 0; j < 16; j++) {
        int code = scales[j] + 32;
        packed[j & 7] |= (uint8_t)((code & 15) << (j >= 8 ? 4 : 0));
        packed[8 + j % 4] |= (uint8_t)((code >> 4) << (2 * (j / 4)));
    }
}

#endif
