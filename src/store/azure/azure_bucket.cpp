#include "store/azure/azure_bucket.h"

#include <algorithm>

#include "base/address.h"
#include "store/azure/sign.h"
#include "store/cloud/crypto.h"
#include "store/keys.h"

namespace ckpt::store::azure {

Result<std::shared_ptr<AzureBucket>> AzureBucket::make(std::string_view uri, const S3Options& options) {
  CKPT_ASSIGN(Config config, make_config(uri, options));
  CKPT_ASSIGN(auto http, Http::make(config.ca_file));
  const auto shared = std::make_shared<const Config>(std::move(config));
  return std::shared_ptr<AzureBucket>(new AzureBucket(shared, std::move(http)));
}

// ---- requests ----

static const Credentials& credentials_of(const std::shared_ptr<const void>& who) {
  return *static_cast<const Credentials*>(who.get());
}

static bool is_copy(const Request& request) {
  return std::ranges::any_of(request.headers, [](const Header& header) { return header.name == "x-ms-copy-source"; });
}

// The CRC is twice as fast, and needs no library.
Status AzureBucket::add_checksum(const Request& request, HttpRequest* http) const {
  if (request.body.empty()) return Ok();
  if (knows_crc64_) {
    http->headers.push_back({"x-ms-content-crc64", crc64_header(request.body)});
    return Ok();
  }
  CKPT_ASSIGN(std::string md5, md5_header(request.body));
  http->headers.push_back({"content-md5", std::move(md5)});
  return Ok();
}

Result<Client::Who> AzureBucket::dress(const Request& request, HttpRequest* http) {
  CKPT_ASSIGN(auto used, credentials_.get(server_time()));
  const std::string path = config_->path_of(request.of_bucket ? "" : config_->key(request.key));
  std::string query = canonical_query(request.query);
  CKPT_TRY(add_checksum(request, http));
  http->headers.push_back({"x-ms-version", kVersion});
  http->headers.push_back({"x-ms-date", http_date(server_time())});
  if (request.verb == "PUT" && request.query.empty() && !is_copy(request))
    http->headers.push_back({"x-ms-blob-type", "BlockBlob"});
  if (!used->key.empty()) {
    const ToSign to_sign{config_->account, request.verb, path, request.query, http->headers, size_of(request.body)};
    http->headers.push_back({"authorization", shared_key(to_sign, used->key)});
  } else if (!used->value.empty()) {
    CKPT_TRY(bear_secret(*config_, "a token", http));
    http->headers.push_back({"authorization", "Bearer " + used->value});
  } else if (!used->sas.empty()) {
    CKPT_TRY(bear_secret(*config_, "a shared access signature", http));
    query += (query.empty() ? "" : "&") + used->sas;
  }
  http->url = config_->endpoint() + path + (query.empty() ? "" : "?" + query);
  return Who(std::move(used));
}

// What the server may have from us and nobody else may see, as it was sent, and as it is written elsewhere.
static std::vector<std::string> secrets_of(const Credentials& credentials, const HttpRequest& sent) {
  std::vector<std::string> secrets = {credentials.value};
  const auto add_signature = [&](std::string_view query) {
    const size_t begin = query.find("sig=");
    if (begin != query.npos) secrets.emplace_back(query.substr(begin + 4, query.find('&', begin) - begin - 4));
  };
  add_signature(credentials.sas);
  for (const Header& header : sent.headers) {
    if (header.name == "authorization") secrets.push_back(header.value.substr(header.value.find_last_of(" :") + 1));
    if (header.name == "x-ms-copy-source") add_signature(header.value);
  }
  for (const std::string& secret : std::vector(secrets)) {
    secrets.push_back(percent_encode(secret, false));
    secrets.push_back(web::percent_decode(secret));
  }
  return secrets;
}

// HEAD's answers have their code, too, in a header. The words end with the request's number and the time.
void AzureBucket::read_error(const Request& request, const HttpRequest& sent, const Who& who, Answer* answer) const {
  answer->unsigned_request = credentials_of(who).anonymous();
  read_xml(answer, secrets_of(credentials_of(who), sent));
  if (const std::string* code = answer->http.header("x-ms-error-code")) answer->code = *code;
  answer->words = answer->words.substr(0, answer->words.find('\n'));
  if (!answer->is(404)) return;
  const bool of_blob = answer->code == "BlobNotFound";
  answer->absent = of_blob && !request.of_bucket;
  answer->stray = answer->code.empty() || answer->code == "Error" || (of_blob && request.of_bucket);
}

// ---- again ----

// Azure says 409 of If-None-Match, and 412 of all other conditions.
bool AzureBucket::is_refusal(const Answer& answer) const {
  return answer.is(412) || (answer.is(409) && answer.code == "BlobAlreadyExists");
}

// Also of a body that arrived with other bytes than it was sent with.
bool AzureBucket::is_passing_code(const Answer& answer) const {
  return answer.code == "Md5Mismatch" || answer.code == "Crc64Mismatch" || answer.code == "ServerBusy" ||
         answer.code == "OperationTimedOut" || answer.code == "InternalError";
}

// Whether the next try may do better at once: with the server's time, another token, or another kind of checksum.
bool AzureBucket::repair(const Request& request, const Answer& answer, const Who& who, Try* tries) {
  if (!answer.failure.ok() || answer.http.good()) return false;
  const bool refused = answer.is(401) || (answer.is(403) && answer.code == "AuthenticationFailed");
  if (refused && !tries->set_clock && set_clock(answer.http)) return tries->set_clock = true;
  // A bit of a header may have been damaged on its way.
  if (refused && !credentials_of(who).key.empty() && !tries->signed_again) return tries->signed_again = true;
  if (refused && !tries->asked_keys) {
    tries->asked_keys = true;
    return credentials_.refused(credentials_of(who), server_time());
  }
  const bool lacks_crc64 = answer.code == "FeatureNotSupported" || answer.code == "UnsupportedHeader";
  return !request.body.empty() && lacks_crc64 && knows_crc64_.exchange(false);
}

// ---- errors ----

// NOT_FOUND means a key. A source that the server cannot read is no reason to fail: whoever wants a copy can do
// without.
ckpt_status AzureBucket::code_of(const Answer& answer, const Request& request) const {
  if (answer.absent && request.verb != "PUT") return CKPT_NOT_FOUND;
  const bool no_copy = is_copy(request) && answer.code == "CannotVerifyCopySource";
  return answer.is(501) || no_copy || answer.code == "FeatureNotSupported" ? CKPT_UNSUPPORTED : CKPT_IO;
}

std::string AzureBucket::hint_of(const Answer& answer, const Request& /*request*/) const {
  const long status = answer.http.status;
  if (answer.unsigned_request && (status == 401 || status == 403 || answer.code == "ResourceNotFound" ||
                                  answer.code == "PublicAccessNotPermitted"))
    return "; no credentials were found: set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT and "
           "AZURE_STORAGE_KEY, or use a managed identity";
  if (status == 403 && answer.code == "AuthenticationFailed")
    return "; the key or the signature is another one or over, or this machine's clock is wrong";
  if (status == 403 && answer.code == "AuthorizationPermissionMismatch")
    return "; the identity needs the role Storage Blob Data Contributor, a signature the permissions racwdl";
  if (status == 409 && (answer.code == "BlobImmutableDueToPolicy" || answer.code == "SnapshotsPresent"))
    return "; a policy or a snapshot of the container keeps it: ckpt needs one without either";
  return "";
}

}  // namespace ckpt::store::azure
