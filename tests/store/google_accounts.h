// Google's servers of tokens, as a test wants them, and the files that lead to them.
#pragma once

#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "s3/http_server.h"
#include "store/gcs/credentials.h"
#include "store/s3/process.h"
#include "store/store_suite.h"
#include "store/web/url.h"

namespace ckpt::store::gcs {

using Json = nlohmann::json;
inline constexpr int64_t kNow = 1800000000;  // of the server, whatever this machine's clock says
inline bool holds(const std::string& text, const std::string& what) { return text.find(what) != text.npos; }

inline std::string token_answer(const std::string& token, int64_t seconds = 3600) {
  return answer_of("200 OK", Json{{"access_token", token}, {"expires_in", seconds}, {"token_type", "Bearer"}}.dump());
}
inline std::string metadata_answer(const std::string& answer) {
  return std::string(answer).insert(answer.find("\r\n"), "\r\nMetadata-Flavor: Google");
}

// All of Google's servers in one, whose answers a test chooses, and a chain that asks them.
struct Google {
  struct Request {
    std::string line, head, body;
    // Of a form.
    std::string field(const std::string& name) const {
      const size_t at = ("&" + body).find("&" + name + "=");
      if (at == body.npos) return "";
      const size_t begin = at + name.size() + 1;
      return web::percent_decode(body.substr(begin, body.find('&', begin) - begin));
    }
  };
  std::function<std::string(const Request&)> answer = [](const Request&) { return token_answer("T"); };
  std::mutex mutex;
  std::vector<Request> asked;
  HttpServer server{[this](int client, const std::string& head, const std::string& body) {
    std::lock_guard lock(mutex);
    asked.push_back({head.substr(0, head.find(" HTTP")), head, body});
    return send_all(client, answer(asked.back()));
  }};
  Scratch folder;
  Place place;
  std::unique_ptr<Http> http = Http::make("").take();
  std::unique_ptr<TokenChain> chain;

  Google() { place.variables = {{"NO_GCE_CHECK", "true"}}; }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return folder / name;
  }
  void use(const Json& file) { place.variables["GOOGLE_APPLICATION_CREDENTIALS"] = write("key.json", file.dump()); }
  void use_metadata() {
    place.variables = {{"GCE_METADATA_HOST", server.endpoint().substr(7)}};
    answer = [](const Request& request) {
      const bool right = holds(request.head, "metadata-flavor: Google\r\n") &&
                         request.line == "GET /computeMetadata/v1/instance/service-accounts/default/token";
      return metadata_answer(right ? token_answer("M") : answer_of("403 Forbidden", ""));
    };
  }
  std::string at(int64_t now) {
    if (!chain) chain = std::make_unique<TokenChain>(place, *http);
    auto found = chain->get(now);
    return found.ok() ? (*found)->value : code(found.status());
  }
  // "TOKEN from SOURCE" or "CODE: ERROR", of a new chain.
  std::string found() {
    TokenChain fresh(place, *http);
    auto found = fresh.get(kNow);
    if (!found.ok()) return code(found.status()) + ": " + found.status().message();
    return (*found)->value + " from " + (*found)->source;
  }

  Json user() const {
    return {{"type", "authorized_user"},
            {"client_id", "id"},
            {"client_secret", "s3cret+word"},
            {"refresh_token", "1//refresh"},
            {"token_uri", server.endpoint() + "/token"}};
  }
  Json external(const Json& source) const {
    return {{"type", "external_account"},
            {"audience", "//iam.googleapis.com/projects/1/x"},
            {"subject_token_type", "urn:ietf:params:oauth:token-type:jwt"},
            {"token_url", server.endpoint() + "/sts"},
            {"credential_source", source}};
  }
  // A key that OpenSSL makes, and its public half in a file.
  Json service_account(const std::string& kind = "RSA -pkeyopt rsa_keygen_bits:2048") {
    const std::string path = folder / "private.pem";
    EXPECT_TRUE(s3::output_of("openssl genpkey -algorithm " + kind + " -out " + path + " 2>&1 && openssl pkey -in " +
                              path + " -pubout -out " + (folder / "public.pem"))
                    .ok());
    return {{"type", "service_account"},
            {"client_email", "robot@project.iam.gserviceaccount.com"},
            {"private_key_id", "k1"},
            {"private_key", *read_small_file(path)},
            {"token_uri", server.endpoint() + "/token"}};
  }
};

}  // namespace ckpt::store::gcs
