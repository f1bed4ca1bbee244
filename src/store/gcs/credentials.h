// The token that requests to Google Cloud Storage bear: of the file that GOOGLE_APPLICATION_CREDENTIALS names, of
// gcloud's application default credentials, of the metadata server, or of nobody. The first that is configured counts;
// if it fails, so does the request, and no later one is tried. Where STORAGE_EMULATOR_HOST is set, only the first one
// counts: a token of gcloud's must not go to an emulator.
// Tokens and keys are in no error and no log. May be used by many threads.
#pragma once

#include <memory>

#include "store/cloud/http.h"
#include "store/cloud/place.h"
#include "store/cloud/token.h"

namespace ckpt::store::gcs {

using namespace cloud;

class TokenChain {
 public:
  // Both must outlive it. Reads no environment but that in `place`: GOOGLE_APPLICATION_CREDENTIALS, CLOUDSDK_CONFIG,
  // GCE_METADATA_HOST, NO_GCE_CHECK, STORAGE_EMULATOR_HOST and HOME.
  TokenChain(const Place& place, Http& http)
      : place_(place), http_(http), renewed_([this](int64_t now) { return ask(now); }) {}
  // See Renewed. INVALID: a file is missing, or wrong.
  Result<std::shared_ptr<const Token>> get(int64_t now) { return renewed_.get(now); }
  bool refused(const Token& by_server, int64_t now) { return renewed_.refused(by_server, now); }

 private:
  Result<Token> ask(int64_t now) const;
  Result<Token> of_metadata(int64_t now) const;

  const Place& place_;
  Http& http_;
  Renewed<Token> renewed_;
};

}  // namespace ckpt::store::gcs
