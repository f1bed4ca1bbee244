"""The CRCs of the test servers."""
import ctypes, os, subprocess, tempfile

# As fast as clients: else they would all wait for the server. By x86's instructions, and what is left, or is on other
# processors, eight bytes at a time by a table for each ("slicing").
CRC = r'''
#include <stddef.h>
#include <stdint.h>
#include <string.h>
void fill(uint64_t* table, uint64_t polynomial) {
  for (uint64_t i = 0; i < 256; i++) {
    uint64_t value = i;
    for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? polynomial : 0);
    table[i] = value;
  }
  for (int i = 256; i < 8 * 256; i++) table[i] = table[table[i - 256] & 255] ^ table[i - 256] >> 8;
}
static uint64_t by_tables(const uint64_t* table, uint64_t value, const uint8_t* data, size_t size) {
  for (uint64_t next; size >= 8; size -= 8, data += 8) {
    memcpy(&next, data, 8);
    next ^= value;
    value = 0;
    for (int i = 0; i < 8; i++) value ^= table[(7 - i) * 256 + (next >> 8 * i & 255)];
  }
  while (size--) value = table[(value ^ *data++) & 255] ^ value >> 8;
  return value;
}
#ifdef __x86_64__
#include <immintrin.h>
__attribute__((target("sse4.2"))) static uint64_t crc32c(uint64_t value, const uint64_t* words, size_t count) {
  while (count--) value = _mm_crc32_u64(value, *words++);
  return value;
}
// x to that power, modulo the polynomial; its highest bit is 1.
static uint64_t power(const uint64_t* table, int exponent) {
  uint64_t value = 1ull << 63;
  while (exponent--) value = value >> 1 ^ (value & 1 ? table[128] : 0);
  return value;
}
// What 64 bytes are is multiplied to where the next 64 are, and added: in the end 64 bytes with the same CRC are left.
__attribute__((target("pclmul"))) static void fold(const uint64_t* table, __m128i* lanes, const uint8_t* data,
                                                   size_t count) {
  const __m128i by = _mm_set_epi64x(power(table, 511), power(table, 575));
  for (const __m128i* next = (const void*)data; count--; next += 4)
    for (int i = 0; i < 4; i++)
      lanes[i] = _mm_clmulepi64_si128(lanes[i], by, 0x00) ^ _mm_clmulepi64_si128(lanes[i], by, 0x11) ^
                 _mm_loadu_si128(next + i);
}
#endif
uint64_t crc(const uint64_t* table, uint64_t ones, const uint8_t* data, size_t size) {
  uint64_t value = ones;
#ifdef __x86_64__
  const size_t left = size % 64, most = size - left;
  if (most && ~ones && __builtin_cpu_supports("sse4.2")) {
    value = crc32c(value, (const void*)data, most / 8);
    data += most, size = left;
  } else if (most && !~ones && __builtin_cpu_supports("pclmul")) {
    __m128i lanes[4];
    memcpy(lanes, data, 64);
    lanes[0] ^= _mm_set_epi64x(0, value);
    fold(table, lanes, data + 64, most / 64 - 1);
    value = by_tables(table, 0, (const uint8_t*)lanes, 64);
    data += most, size = left;
  }
#endif
  return by_tables(table, value, data, size) ^ ones;
}'''


def load():
    """The functions compiled: in Python they would take seconds for the sizes that tests use."""
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, 'crc.so')
        command = ['cc', '-O3', '-shared', '-fPIC', '-x', 'c', '-', '-o', library]
        subprocess.run(command, input=CRC.encode(), check=True)
        code = ctypes.CDLL(library)
    code.crc.restype, table = ctypes.c_uint64, ctypes.c_uint64 * (8 * 256)
    code.crc.argtypes = [table, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t]
    code.fill.argtypes = [table, ctypes.c_uint64]

    def make(polynomial, bits):
        filled = table()
        code.fill(filled, polynomial)

        def crc(data):  # bytes, or what can be written to
            data = data if isinstance(data, bytes) else (ctypes.c_char * len(data)).from_buffer(data)
            return code.crc(filled, (1 << bits) - 1, data, len(data))
        return crc
    return make


make = load()
crc32c = make(0x82f63b78, 32)


def times(a, b):
    """The product of two polynomials of bits modulo that of CRC-32C; 1 is the highest bit."""
    product = 0
    while a:
        if a >> 31:
            product ^= b
        a, b = a << 1 & 0xffffffff, b >> 1 ^ (0x82f63b78 if b & 1 else 0)
    return product


def crc32c_joined(pieces):
    """That of pieces one after another, by the (CRC, size) of each: no byte is read."""
    total = 0
    for crc, size in pieces:
        power, bits = 1 << 30, 8 * size  # x
        while bits:
            total, power, bits = times(total, power) if bits & 1 else total, times(power, power), bits >> 1
        total ^= crc
    return total


crc64nvme = make(0x9a6c9329ac4bc9b5, 64)  # S3's CRC64NVME and Azure's x-ms-content-crc64
