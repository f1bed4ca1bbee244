#include "store/gcs/gcs_bucket.h"

#include "base/address.h"
#include "base/text.h"
#include "store/cloud/key_service.h"
#include "store/cloud/secret_json.h"
#include "store/keys.h"

namespace ckpt::store::gcs {

static Result<Place> make_place(std::string_view uri, const S3Options& options) {
  Place place;
  CKPT_TRY(read_uri(uri, &place));
  // Names of pieces are longer than those of objects, and the service takes 1,024 bytes of UTF-8.
  constexpr size_t kLongestRoot = 512;
  if (place.root.size() > kLongestRoot || !valid_utf8(place.root))
    return invalid_place(uri, strformat("expected a prefix of at most {} bytes of UTF-8", kLongestRoot));
  place.variables = read_variables({"GOOGLE_", "CLOUDSDK_", "GCE_", "NO_GCE_CHECK=", "STORAGE_EMULATOR_HOST="});
  place.ca_file = options.ca_file;
  place.conditional = options.conditional;
  place.grace_ms = options.grace_ms;
  place.timing = options.timing;
  // The variable of Google's own clients, which is often without a scheme.
  std::string emulator = place.variable("STORAGE_EMULATOR_HOST");
  if (!emulator.empty() && emulator.find("://") == emulator.npos) emulator = "http://" + emulator;
  CKPT_TRY(read_endpoint(uri, first_of({options.endpoint, emulator, "https://storage.googleapis.com"}), &place));
  return place;
}

Result<std::shared_ptr<GcsBucket>> GcsBucket::make(std::string_view uri, const S3Options& options) {
  CKPT_ASSIGN(Place place, make_place(uri, options));
  CKPT_ASSIGN(auto http, Http::make(place.ca_file));
  const auto shared = std::make_shared<const Place>(std::move(place));
  return std::shared_ptr<GcsBucket>(new GcsBucket(shared, std::move(http)));
}

// ---- requests ----

static const Token& token_of(const std::shared_ptr<const void>& who) { return *static_cast<const Token*>(who.get()); }

Result<Client::Who> GcsBucket::dress(const Request& request, HttpRequest* http) {
  CKPT_ASSIGN(auto token, credentials_.get(server_time()));
  const std::string query = canonical_query(request.query);
  const std::string path = request.path.empty() ? object_path(request.key) : request.path;
  http->url = place().endpoint() + path + (query.empty() ? "" : "?" + query);
  if (!token->anonymous()) {
    CKPT_TRY(bear_secret(place(), "a token", http));
    http->headers.push_back({"authorization", "Bearer " + token->value});
  }
  return Who(std::move(token));
}

// Errors of the JSON API are JSON, those of a download are its message alone.
static void read_words(Answer* answer, const std::string& token) {
  const std::vector<std::string> secrets = {token, percent_encode(token, false)};
  const std::span<const std::string> kept(secrets.data(), token.empty() ? 0 : secrets.size());
  for (Header& header : answer->http.headers) header.value = blotted(std::move(header.value), kept);
  const auto parsed = parse_json(answer->http.text);
  const nlohmann::json* error = member(parsed, "error");
  if (!error) {
    const std::string text = single_line(answer->http.text);
    const bool is_message = text.starts_with("No such object: ") || text == "Not Found";
    if (is_message) answer->code = "notFound", answer->words = blotted(text, kept);
    return;
  }
  answer->words = blotted(text_member(*error, "message"), kept);
  const nlohmann::json* errors = member(*error, "errors");
  if (errors && errors->is_array() && !errors->empty())
    answer->code = blotted(text_member(errors->front(), "reason"), kept);
  if (answer->code.empty()) answer->code = "error";
}

// A bucket that is not there has the same reason as an object, and at times the same words: see check_bucket.
void GcsBucket::read_error(const Request& request, const HttpRequest& /*sent*/, const Who& who, Answer* answer) const {
  answer->unsigned_request = token_of(who).anonymous();
  if (answer->http.good()) return;
  read_words(answer, token_of(who).value);
  if (!answer->is(404)) return;
  const bool of_object =
      answer->words.starts_with("No such object") || answer->words.find("bucket") == std::string::npos;
  answer->absent = answer->code == "notFound" && of_object && !request.of_bucket;
  answer->stray = answer->code.empty();
}

// ---- again ----

// Also of a body that arrived with other bytes than it was sent with.
bool GcsBucket::is_passing_code(const Answer& answer) const {
  if (answer.http.good()) return false;
  return answer.code == "rateLimitExceeded" || answer.code == "userRateLimitExceeded" ||
         (answer.is(400) && answer.words.find("doesn't match calculated") != std::string::npos);
}

bool GcsBucket::repair(const Request& /*request*/, const Answer& answer, const Who& who, Try* tries) {
  if (!answer.failure.ok() || !answer.is(401)) return false;
  if (!tries->set_clock && set_clock(answer.http)) tries->set_clock = true;  // when tokens end is told by it
  if (tries->asked_keys) return false;
  tries->asked_keys = true;
  return credentials_.refused(token_of(who), server_time());
}

// ---- errors ----

ckpt_status GcsBucket::code_of(const Answer& answer, const Request& request) const {
  if (answer.absent && request.verb != "POST") return CKPT_NOT_FOUND;
  return answer.is(501) ? CKPT_UNSUPPORTED : CKPT_IO;
}

std::string GcsBucket::hint_of(const Answer& answer, const Request& request) const {
  const long status = answer.http.status;
  if ((status == 401 || status == 403) && answer.unsigned_request)
    return "; no credentials were found: set GOOGLE_APPLICATION_CREDENTIALS, or log in by gcloud auth "
           "application-default login";
  if (status == 403 && answer.code == "retentionPolicyNotMet")
    return "; a retention policy or a hold of the bucket keeps it: ckpt needs a bucket without one";
  if (status == 403 && request.verb == "GET" && !request.of_bucket)
    return "; the service answers so for an absent object, too, if the account may not list the bucket";
  return "";
}

}  // namespace ckpt::store::gcs
