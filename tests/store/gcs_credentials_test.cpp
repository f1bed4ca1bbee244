// Where the tokens of Google Cloud Storage come from.
#include "store/google_accounts.h"

namespace ckpt::store::gcs {
namespace {

// RFC 4648 §5, by OpenSSL.
std::string bytes_of_base64url(const Google& google, std::string text) {
  std::replace(text.begin(), text.end(), '-', '+');
  std::replace(text.begin(), text.end(), '_', '/');
  while (text.size() % 4 != 0) text += '=';
  std::ofstream(google.folder / "text") << text;
  return *s3::output_of("openssl base64 -d -A -in " + (google.folder / "text"));
}

TEST(GcsCredentials, AServiceAccountSignsWhoItIs) {
  Google google;
  google.use(google.service_account());
  EXPECT_EQ(google.found(), "T from GOOGLE_APPLICATION_CREDENTIALS " + (google.folder / "key.json"));
  ASSERT_EQ(google.asked.size(), 1u);
  const auto& request = google.asked[0];
  EXPECT_EQ(request.line, "POST /token");
  EXPECT_EQ(request.field("grant_type"), "urn:ietf:params:oauth:grant-type:jwt-bearer");
  const std::string jwt = request.field("assertion");
  const size_t first = jwt.find('.'), last = jwt.rfind('.');
  EXPECT_EQ(jwt.find_first_of("=+/"), jwt.npos);
  EXPECT_EQ(Json::parse(bytes_of_base64url(google, jwt.substr(0, first))),
            Json({{"alg", "RS256"}, {"kid", "k1"}, {"typ", "JWT"}}));
  EXPECT_EQ(Json::parse(bytes_of_base64url(google, jwt.substr(first + 1, last - first - 1))),
            Json({{"iss", "robot@project.iam.gserviceaccount.com"},
                  {"scope", "https://www.googleapis.com/auth/devstorage.read_write"},
                  {"aud", google.server.endpoint() + "/token"},
                  {"iat", kNow},
                  {"exp", kNow + 3600}}));
  google.write("signature", bytes_of_base64url(google, jwt.substr(last + 1)));
  google.write("signed", jwt.substr(0, last));
  auto verified = s3::output_of("openssl dgst -sha256 -verify " + (google.folder / "public.pem") + " -signature " +
                                (google.folder / "signature") + " " + (google.folder / "signed"));
  EXPECT_EQ(*verified, "Verified OK\n");
}

TEST(GcsCredentials, AKeyThatIsNoneOfRsaOrNeedsAPasswordIsInvalid) {
  Google google;
  Json file = google.service_account("EC -pkeyopt ec_paramgen_curve:P-256");
  google.use(file);
  EXPECT_TRUE(holds(google.found(), "INVALID: ")) << google.found();
  const std::string locked = google.folder / "locked.pem";
  ASSERT_TRUE(s3::output_of("openssl genpkey -algorithm RSA -aes256 -pass pass:x -out " + locked + " 2>&1").ok());
  for (const std::string& key : {*read_small_file(locked), std::string("secret"), std::string()}) {
    file["private_key"] = key;
    google.use(file);
    EXPECT_TRUE(google.found().starts_with("INVALID: ")) << google.found();
    EXPECT_FALSE(holds(google.found(), "secret"));
  }
  EXPECT_EQ(google.asked.size(), 0u);
}

TEST(GcsCredentials, AUserGivesARefreshToken) {
  Google google;
  google.use(google.user());
  EXPECT_EQ(google.at(kNow), "T");
  const auto& request = google.asked.at(0);
  EXPECT_EQ(request.field("grant_type") + " " + request.field("client_id") + " " + request.field("client_secret") +
                " " + request.field("refresh_token"),
            "refresh_token id s3cret+word 1//refresh");
  EXPECT_TRUE(holds(request.head, "content-type: application/x-www-form-urlencoded\r\n"));
}

TEST(GcsCredentials, AnotherCloudsTokenIsExchangedAndMayStandForAServiceAccount) {
  Google google;
  google.answer = [](const Google::Request& request) {
    if (request.line == "GET /subject?a=b")
      return answer_of(holds(request.head, "x-key: v\r\n") ? "200 OK" : "403 Forbidden", "{\"value\":\"of+url\"}");
    if (request.line == "POST /sts") return token_answer(request.field("subject_token"));
    const bool right =
        request.line == "POST /robot:generateAccessToken" && holds(request.head, "authorization: Bearer of+url\r\n") &&
        Json::parse(request.body) ==
            Json({{"scope", {"https://www.googleapis.com/auth/devstorage.read_write"}}, {"lifetime", "600s"}});
    return answer_of(right ? "200 OK" : "400 Bad Request",
                     "{\"accessToken\":\"R\",\"expireTime\":\"2027-01-15T08:00:05Z\"}");
  };
  google.use(google.external({{"file", google.write("subject", "of+file\n")}}));
  EXPECT_EQ(google.at(kNow), "of+file");
  const auto request = google.asked.at(0);
  EXPECT_EQ(request.field("grant_type"), "urn:ietf:params:oauth:grant-type:token-exchange");
  EXPECT_EQ(request.field("audience"), "//iam.googleapis.com/projects/1/x");
  EXPECT_EQ(request.field("scope"), "https://www.googleapis.com/auth/devstorage.read_write");
  EXPECT_EQ(request.field("requested_token_type"), "urn:ietf:params:oauth:token-type:access_token");
  EXPECT_EQ(request.field("subject_token_type"), "urn:ietf:params:oauth:token-type:jwt");
  Json file = google.external({{"url", google.server.endpoint() + "/subject?a=b"},
                               {"headers", {{"X-Key", "v"}}},
                               {"format", {{"type", "json"}, {"subject_token_field_name", "value"}}}});
  file["client_id"] = "me";
  file["client_secret"] = "pw";
  file["service_account_impersonation_url"] = google.server.endpoint() + "/robot:generateAccessToken";
  file["service_account_impersonation"] = {{"token_lifetime_seconds", 600}};
  google.use(file);
  TokenChain chain(google.place, *google.http);
  auto found = chain.get(kNow);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ((*found)->value, "R");
  EXPECT_EQ((*found)->expires, kNow + 5);
  ASSERT_EQ(google.asked.size(), 4u);
  EXPECT_EQ(google.asked[2].field("scope"), "https://www.googleapis.com/auth/iam");
  EXPECT_TRUE(holds(google.asked[2].head, "authorization: Basic bWU6cHc=\r\n"));
}

TEST(GcsCredentials, AnAccountStandsForAnotherOne) {
  Google google;
  google.answer = [](const Google::Request& request) {
    if (request.line == "POST /token") return token_answer("T");
    const bool right =
        holds(request.head, "authorization: Bearer T\r\n") && Json::parse(request.body)["delegates"] == Json({"d"});
    return answer_of(right ? "200 OK" : "400 Bad Request",
                     "{\"accessToken\":\"R\",\"expireTime\":\"2099-01-01T00:00:00Z\"}");
  };
  Json file = {{"type", "impersonated_service_account"},
               {"service_account_impersonation_url", google.server.endpoint() + "/robot"},
               {"delegates", {"d"}},
               {"source_credentials", google.user()}};
  google.use(file);
  EXPECT_EQ(google.found().substr(0, 2), "R ");
  file["source_credentials"] = google.external({{"file", google.write("subject", "x")}});
  file["source_credentials"]["service_account_impersonation_url"] = google.server.endpoint() + "/first";
  google.use(file);
  google.asked.clear();
  google.answer = [](const Google::Request& request) {
    if (request.line == "POST /sts") return token_answer("S");
    const std::string name = request.line == "POST /first" ? "T" : "R";
    return answer_of("200 OK", "{\"accessToken\":\"" + name + "\",\"expireTime\":\"2099-01-01T00:00:00Z\"}");
  };
  EXPECT_EQ(google.found().substr(0, 2), "R ");
  ASSERT_EQ(google.asked.size(), 3u);
  EXPECT_TRUE(holds(google.asked[1].body, "auth/iam\"")) << google.asked[1].body;
  EXPECT_TRUE(holds(google.asked[2].body, "auth/devstorage.read_write\"")) << google.asked[2].body;
  file["source_credentials"] = file;
  google.use(file);
  EXPECT_EQ(google.found().substr(0, 8), "INVALID:") << "not without an end";
}

TEST(GcsCredentials, TheFirstSourceThatIsConfiguredCounts) {
  Google google;
  google.use_metadata();
  EXPECT_EQ(google.found(), "M from the metadata server");
  std::filesystem::create_directories(google.folder / ".config/gcloud");
  google.place.variables["HOME"] = google.folder.path;
  EXPECT_EQ(google.found(), "M from the metadata server");
  const std::string of_gcloud = google.write(".config/gcloud/application_default_credentials.json", "{}");
  EXPECT_TRUE(holds(google.found(), "INVALID: credentials of " + of_gcloud)) << google.found();
  google.write("application_default_credentials.json", google.user().dump());
  google.place.variables["CLOUDSDK_CONFIG"] = google.folder.path;
  google.answer = [](const Google::Request&) { return token_answer("T"); };
  EXPECT_EQ(google.found(), "T from " + (google.folder / "application_default_credentials.json"));
  google.place.variables["STORAGE_EMULATOR_HOST"] = "localhost:1";
  EXPECT_EQ(google.found(), " from nobody (STORAGE_EMULATOR_HOST is set)");
  google.use(google.user());
  EXPECT_EQ(google.found(), "T from GOOGLE_APPLICATION_CREDENTIALS " + (google.folder / "key.json"));
  google.place.variables["GOOGLE_APPLICATION_CREDENTIALS"] = "/no/such/file";
  EXPECT_TRUE(google.found().starts_with("INVALID: credentials of GOOGLE_APPLICATION_CREDENTIALS /no/such/file: "))
      << google.found();
}

TEST(GcsCredentials, WithoutAMetadataServerOrAnAccountThereNobodyIsNobody) {
  const std::string nobody = " from nobody (no credentials were found)";
  Google google;
  EXPECT_EQ(google.found(), nobody) << "NO_GCE_CHECK";
  google.place.variables = {{"GCE_METADATA_HOST", "127.0.0.1:1"}};
  EXPECT_EQ(google.found(), nobody) << "nobody listens";
  google.use_metadata();
  google.answer = [](const Google::Request&) { return token_answer("M"); };
  EXPECT_EQ(google.found(), nobody) << "without its header it is something else";
  google.answer = [](const Google::Request&) { return metadata_answer(answer_of("404 Not Found", "")); };
  EXPECT_EQ(google.found(), nobody);
  google.answer = [&](const Google::Request&) {
    return google.asked.size() == 2 ? metadata_answer(token_answer("M")) : answer_of("503 Unavailable", "");
  };
  google.asked.clear();
  EXPECT_EQ(google.found(), "M from the metadata server") << "crowded is not absent";
  google.answer = [](const Google::Request&) { return metadata_answer(answer_of("403 Forbidden", "")); };
  EXPECT_EQ(google.found(), "IO: credentials of the metadata server: HTTP status 403");
  google.place.variables = {{"GCE_METADATA_HOST", "u@127.0.0.1:1"}};
  EXPECT_EQ(google.found().substr(0, 8), "INVALID:");
}

TEST(GcsCredentials, WhatCannotBeUsedSaysWhatCan) {
  Google google;
  for (const Json& source : {Json{{"environment_id", "aws1"}, {"url", "http://169.254.169.254/"}},
                             Json{{"executable", {{"command", "x"}}}}}) {
    google.use(google.external(source));
    EXPECT_TRUE(holds(google.found(), "UNSUPPORTED: ") && holds(google.found(), "OIDC")) << google.found();
  }
  google.use({{"type", "external_account_authorized_user"}});
  EXPECT_TRUE(google.found().starts_with("UNSUPPORTED: ")) << google.found();
  for (const Json& source : {Json::object(), Json{{"file", "/no/such"}}, Json{{"file", "x"}, {"url", "y"}},
                             Json{{"url", "http://192.0.2.1/"}}, Json{{"url", "http://169.254.169.254.evil.example/"}},
                             Json{{"file", google.write("none", "\n")}}}) {
    google.use(google.external(source));
    EXPECT_TRUE(google.found().starts_with("INVALID: ")) << google.found();
  }
}

TEST(GcsCredentials, SecretsGoToNoStranger) {
  Google google;
  for (const char* uri : {"http://oauth2.googleapis.com/token", "http://localhost@192.0.2.1/", "ftp://localhost/", "x",
                          "http://127.0.0.1.evil.example/", "https://u:p@oauth2.googleapis.com/token"}) {
    Json file = google.user();
    file["token_uri"] = uri;
    google.use(file);
    EXPECT_TRUE(holds(google.found(), "INVALID: ") && holds(google.found(), "token_uri")) << google.found();
  }
}

TEST(GcsCredentials, ARefusalIsNamedWithoutSecrets) {
  Google google;
  google.use(google.user());
  google.answer = [](const Google::Request&) {
    return answer_of("400 Bad Request",
                     "{\"error\":\"invalid_grant\",\"error_description\":\"Bad 1//refresh, "
                     "s3cret+word and s3cret%2Bword\"}");
  };
  EXPECT_EQ(google.found(), "IO: credentials of GOOGLE_APPLICATION_CREDENTIALS " + (google.folder / "key.json") +
                                ": HTTP status 400 invalid_grant Bad ***, *** and ***");
  google.answer = [](const Google::Request&) {
    return answer_of("403 Forbidden",
                     "{\"error\":{\"code\":403,\"status\":\"PERMISSION_DENIED\",\"message\":\"a\\nb\"}}");
  };
  EXPECT_TRUE(google.found().ends_with("HTTP status 403 PERMISSION_DENIED")) << google.found();
  google.answer = [](const Google::Request& request) {
    const std::string said = header_of(request.head, "authorization") + " pa55word " + request.field("subject_token");
    return answer_of("401 Unauthorized", Json{{"error", said}}.dump());
  };
  Json file = google.external({{"file", google.write("subject", "of+file\n")}});
  file["client_id"] = "me";
  file["client_secret"] = "pa55word";
  google.use(file);
  EXPECT_TRUE(google.found().ends_with("HTTP status 401 Basic *** *** ***")) << google.found();
}

TEST(GcsCredentials, AnswersWithoutATokenThatCanBeSentAreNone) {
  Google google;
  google.use(google.user());
  for (const char* text :
       {"", "[]", "{\"expires_in\":1}", "{\"access_token\":\"T\"}",
        "{\"access_token\":\"T\\r\\nX:y\",\"expires_in\":1}", "{\"access_token\":\"T x\",\"expires_in\":1}",
        "{\"access_token\":\"T\",\"expires_in\":-1}", "{\"access_token\":\"T\",\"expires_in\":1e300}",
        "{\"accessToken\":\"T\",\"expireTime\":\"soon\"}"}) {
    google.answer = [&](const Google::Request&) { return answer_of("200 OK", text); };
    EXPECT_TRUE(google.found().starts_with("FORMAT: ")) << text << google.found();
  }
  google.answer = [](const Google::Request&) { return answer_of("200 OK", std::string(1 << 20, '[')); };
  EXPECT_TRUE(google.found().starts_with("IO: ")) << google.found();
  google.answer = [](const Google::Request&) {
    return answer_of("200 OK", "{\"access_token\":\"T\",\"expires_in\":\"9\"}");
  };
  EXPECT_EQ(google.found().substr(0, 2), "T ");
}

TEST(GcsCredentials, TheyAreAskedForAgainBeforeTheyExpireAndWhenTheServerRefusesThem) {
  Google google;
  google.use(google.user());
  google.answer = [&](const Google::Request&) {
    const size_t number = google.asked.size();
    return number == 1 ? answer_of("503 Unavailable", "") : token_answer("T" + std::to_string(number), 1000);
  };
  for (int64_t later : {0, 699}) EXPECT_EQ(google.at(kNow + later), "T2") << "the second try";
  EXPECT_EQ(google.at(kNow + 700), "T3");
  const auto old = *google.chain->get(kNow + 700);
  EXPECT_TRUE(google.chain->refused(*old, kNow + 701));
  EXPECT_EQ(google.at(kNow + 701), "T4");
  google.answer = [](const Google::Request&) { return token_answer("T4"); };
  EXPECT_FALSE(google.chain->refused(**google.chain->get(kNow + 702), kNow + 740)) << "the same again";
  google.answer = [](const Google::Request&) { return answer_of("400 Bad Request", ""); };
  EXPECT_EQ(google.at(kNow + 701 + 3500), "T4");
  EXPECT_EQ(google.at(kNow + 9000), "IO");
}

}  // namespace
}  // namespace ckpt::store::gcs
