"""The CRCs of the test servers."""
import ctypes, os, subprocess, tempfile

CRC = r'''
#include <stddef.h>
#include <stdint.h>
void fill(uint64_t* table, uint64_t polynomial) {
  for (uint64_t i = 0; i < 256; i++) {
    uint64_t value = i;
    for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? polynomial : 0);
    table[i] = value;
  }
}
uint64_t crc(const uint64_t* table, uint64_t ones, const uint8_t* data, size_t size) {
  uint64_t value = ones;
  while (size--) value = table[(value ^ *data++) & 255] ^ value >> 8;
  return value ^ ones;
}'''


def load():
    """The functions compiled: in Python they would take seconds for the sizes that tests use."""
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, 'crc.so')
        command = ['cc', '-O2', '-shared', '-fPIC', '-x', 'c', '-', '-o', library]
        subprocess.run(command, input=CRC.encode(), check=True)
        code = ctypes.CDLL(library)
    code.crc.restype, table = ctypes.c_uint64, ctypes.c_uint64 * 256
    code.crc.argtypes = [table, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t]
    code.fill.argtypes = [table, ctypes.c_uint64]

    def make(polynomial, bits):
        filled = table()
        code.fill(filled, polynomial)
        return lambda data: code.crc(filled, (1 << bits) - 1, data, len(data))
    return make


make = load()
crc32c = make(0x82f63b78, 32)
crc64nvme = make(0x9a6c9329ac4bc9b5, 64)  # S3's CRC64NVME and Azure's x-ms-content-crc64
