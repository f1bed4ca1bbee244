#include "store/cloud/crypto.h"

#include <memory>

#include "store/cloud/encoding.h"
#include "store/cloud/library.h"

namespace ckpt::store::cloud {

namespace {

// As <openssl/evp.h>, <openssl/pem.h> and <openssl/err.h> have declared them since 1.1.1; each structure is a void.
struct Crypto {
  void* (*bio_new)(const void* bytes, int size);
  int (*bio_free)(void* bio);
  void* (*read_key)(void* bio, void** key, int (*password)(char*, int, int, void*), void* user);
  void (*key_free)(void* key);
  void* (*context_new)();
  void (*context_free)(void* context);
  const void* (*sha256)(), *(*md5)();
  int (*digest_init)(void* context, const void* digest, void* engine);
  int (*digest_add)(void* context, const void* bytes, size_t size);
  int (*digest_end)(void* context, unsigned char* digest, unsigned* size);
  int (*sign_init)(void* context, void** key_context, const void* digest, void* engine, void* key);
  int (*sign)(void* context, unsigned char* signature, size_t* size, const unsigned char* text, size_t text_size);
  int (*set_mark)();
  int (*pop_to_mark)();
};

Status no_crypto(std::string_view why) {
  return Status(CKPT_UNSUPPORTED,
                strformat("the key of a service account, and a server that checks bodies by MD5 alone, "
                          "need libcrypto.so.3 or libcrypto.so.1.1 (Debian: libssl3, libssl1.1), "
                          "which cannot be loaded: {}",
                          why));
}

Result<Crypto> load_crypto_once() {
  std::string why;
  const Library library({"libcrypto.so.3", "libcrypto.so.1.1"}, &why);
  if (!library) return no_crypto(why);
  Crypto crypto{};
  const bool found =
      library.find("BIO_new_mem_buf", &crypto.bio_new) && library.find("BIO_free", &crypto.bio_free) &&
      library.find("PEM_read_bio_PrivateKey", &crypto.read_key) && library.find("EVP_PKEY_free", &crypto.key_free) &&
      library.find("EVP_MD_CTX_new", &crypto.context_new) && library.find("EVP_MD_CTX_free", &crypto.context_free) &&
      library.find("EVP_sha256", &crypto.sha256) && library.find("EVP_md5", &crypto.md5) &&
      library.find("EVP_DigestInit_ex", &crypto.digest_init) && library.find("EVP_DigestUpdate", &crypto.digest_add) &&
      library.find("EVP_DigestFinal_ex", &crypto.digest_end) && library.find("EVP_DigestSignInit", &crypto.sign_init) &&
      library.find("EVP_DigestSign", &crypto.sign) && library.find("ERR_set_mark", &crypto.set_mark) &&
      library.find("ERR_pop_to_mark", &crypto.pop_to_mark);
  if (!found) return no_crypto("it lacks a function");
  return crypto;
}

Result<const Crypto*> load_crypto() {
  static const auto& loaded = *new const Result<Crypto>(load_crypto_once());  // never destroyed, as Curl's
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

// Else libcrypto asks for one at the terminal.
int no_password(char*, int, int, void*) { return -1; }

// What goes wrong here stays out of the list of errors that others of this thread look at.
class OwnErrors {
 public:
  explicit OwnErrors(const Crypto& crypto) : crypto_(crypto) { crypto_.set_mark(); }
  ~OwnErrors() { crypto_.pop_to_mark(); }
  OwnErrors(const OwnErrors&) = delete;
  OwnErrors& operator=(const OwnErrors&) = delete;

 private:
  const Crypto& crypto_;
};

}  // namespace

Result<std::string> sign_rs256(const std::string& key, std::string_view text) {
  constexpr size_t kLeastSignature = 128;  // of RSA with 1,024 bits; most elliptic curves have less
  CKPT_ASSIGN(const Crypto* crypto, load_crypto());
  const OwnErrors own(*crypto);
  const std::unique_ptr<void, int (*)(void*)> bio(crypto->bio_new(key.data(), static_cast<int>(key.size())),
                                                  crypto->bio_free);
  const std::unique_ptr<void, void (*)(void*)> context(crypto->context_new(), crypto->context_free);
  if (!bio || !context) return Status(CKPT_NOMEM, "no memory for a signature");
  const std::unique_ptr<void, void (*)(void*)> parsed(crypto->read_key(bio.get(), nullptr, no_password, nullptr),
                                                      crypto->key_free);
  if (!parsed) return Status(CKPT_INVALID, "the private key is no PEM, or needs a password");
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t size = 0;
  std::string signature;
  bool done = crypto->sign_init(context.get(), nullptr, crypto->sha256(), nullptr, parsed.get()) == 1 &&
              crypto->sign(context.get(), nullptr, &size, bytes, text.size()) == 1;
  if (done) {
    signature.resize(size);
    done =
        crypto->sign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, bytes, text.size()) == 1;
    signature.resize(size);
  }
  if (!done || size < kLeastSignature) return Status(CKPT_INVALID, "the private key is none of RSA, or too short");
  return signature;
}

Result<std::string> md5_header(std::span<const Bytes> pieces) {
  CKPT_ASSIGN(const Crypto* crypto, load_crypto());
  const OwnErrors own(*crypto);
  const std::unique_ptr<void, void (*)(void*)> context(crypto->context_new(), crypto->context_free);
  if (!context) return Status(CKPT_NOMEM, "no memory for a checksum");
  std::byte digest[16];
  bool done = crypto->digest_init(context.get(), crypto->md5(), nullptr) == 1;
  for (size_t i = 0; done && i < pieces.size(); i++)
    done = crypto->digest_add(context.get(), pieces[i].data(), pieces[i].size()) == 1;
  done = done && crypto->digest_end(context.get(), reinterpret_cast<unsigned char*>(digest), nullptr) == 1;
  return done ? Result<std::string>(base64_of(digest)) : Status(CKPT_UNSUPPORTED, "libcrypto is set up without MD5");
}

}  // namespace ckpt::store::cloud
