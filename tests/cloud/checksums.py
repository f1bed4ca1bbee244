"""The CRCs of the test servers."""
import ctypes, os, subprocess, tempfile

# Eight bytes at a time, by a table for each ("slicing"): one at a time would be slower than any client.
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
uint64_t crc(const uint64_t* table, uint64_t ones, const uint8_t* data, size_t size) {
  uint64_t value = ones, next;
  for (; size >= 8; size -= 8, data += 8) {
    memcpy(&next, data, 8);
    next ^= value;
    value = 0;
    for (int i = 0; i < 8; i++) value ^= table[(7 - i) * 256 + (next >> 8 * i & 255)];
  }
  while (size--) value = table[(value ^ *data++) & 255] ^ value >> 8;
  return value ^ ones;
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
        return lambda data: code.crc(filled, (1 << bits) - 1, data, len(data))
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
