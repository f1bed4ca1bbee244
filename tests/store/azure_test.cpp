// Where an az:// store is, who its requests are from, and what a server says that is not Azure, or not as it should be.
#include "base/address.h"
#include "base/base64.h"
#include "s3/bucket.h"
#include "store/azure/sign.h"
#include "store/cloud/crypto.h"
#include "store/google_accounts.h"
#include "store/s3_fixture.h"

namespace ckpt::store::azure {
namespace {

constexpr int64_t kNow = gcs::kNow;
const std::string kKey = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

// Of the environment, as long as a test runs.
struct Environment {
  explicit Environment(std::initializer_list<std::pair<const char*, std::string>> set = {}) {
    for (const char* name : {"AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY",
                             "AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID",
                             "AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT"})
      variables.push_back(std::make_unique<Variable>(name, ""));
    for (const auto& [name, value] : set) variables.push_back(std::make_unique<Variable>(name, value.c_str()));
  }
  std::vector<std::unique_ptr<Variable>> variables;
};

// ---- addresses ----

// "URI URL-OF-A-KEY ACCOUNT", or the status.
std::string place_of(std::string_view uri, const S3Options& options = {}) {
  const auto config = make_config(uri, options);
  if (!config.ok()) return code(config.status());
  return config->uri() + " " + config->endpoint() + config->path_of(config->key("d/x y")) + " " + config->account;
}

TEST(AzurePlace, IsWhatTheAddressTheOptionsOrTheEnvironmentSay) {
  const Environment environment;
  const std::string of_host = "https://acct.blob.core.windows.net/c/run7";
  for (const std::string& uri : {of_host, std::string("abfss://c@acct.dfs.core.windows.net/run7/"),
                                 std::string("abfs://c@acct.dfs.core.windows.net//run7")})
    EXPECT_EQ(place_of(uri), of_host + " " + of_host + "/d/x%20y acct");
  const std::string of_zone = "https://acct.z12.blob.storage.azure.net/c/run7";
  EXPECT_EQ(place_of("abfss://c@acct.z12.dfs.storage.azure.net/run7"), of_zone + " " + of_zone + "/d/x%20y acct");
  EXPECT_EQ(place_of("az://c/run7", {.account = "acct"}), "az://c/run7 " + of_host + "/d/x%20y acct");
  EXPECT_EQ(place_of("az://c", {.endpoint = "http://127.0.0.1:10000/devstoreaccount1"}),
            "az://c http://127.0.0.1:10000/devstoreaccount1/c/d/x%20y devstoreaccount1");
  EXPECT_EQ(place_of("az://c", {.endpoint = "https://objects.example", .account = "acct"}),
            "az://c https://objects.example/c/d/x%20y acct");
  {
    const Environment named({{"AZURE_STORAGE_ACCOUNT", "acct"}});
    EXPECT_EQ(place_of("az://c/run7"), "az://c/run7 " + of_host + "/d/x%20y acct");
  }
  const Environment connected({{"AZURE_STORAGE_CONNECTION_STRING",
                                "accountname=acct;ACCOUNTKEY=" + kKey + ";EndpointSuffix=core.chinacloudapi.cn"}});
  EXPECT_EQ(place_of("az://c"), "az://c https://acct.blob.core.chinacloudapi.cn/c/d/x%20y acct");
  const Environment development({{"AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true"}});
  EXPECT_EQ(place_of("az://c"), "az://c http://127.0.0.1:10000/devstoreaccount1/c/d/x%20y devstoreaccount1");
}

TEST(AzurePlace, WhatIsNoneIsRefusedWithoutSecrets) {
  const Environment environment;
  for (std::string_view uri :
       {"az://c/run7", "az://", "az://c/../x", "abfss://acct.dfs.core.windows.net/run7", "abfss://c@acct.example/run7",
        "abfss://c@.dfs.core.windows.net/run7", "abfss://c@acct.dfs.example/run7"})
    EXPECT_EQ(place_of(uri), "INVALID") << uri;
  EXPECT_EQ(place_of("az://c", {.account = "no/account"}), "INVALID");
  const Status refused = make_config("az://c/run7?sv=1&sig=SECRET", {.account = "acct"}).status();
  EXPECT_EQ(code(refused), "INVALID");
  EXPECT_NE(refused.message().find("query"), std::string::npos) << refused.message();
  EXPECT_EQ(refused.message().find("SECRET"), std::string::npos) << refused.message();
}

TEST(AzurePlace, AnAccountIsKnownByItsHostAndEveryOtherAddressStaysOneOfTheWeb) {
  for (std::string_view uri : {"https://acct.blob.core.windows.net/c/run7", "https://a.blob.core.usgovcloudapi.net/c",
                               "https://acct.z1.blob.storage.azure.net/c/run7"})
    EXPECT_FALSE(is_web_url(uri)) << uri;
  for (std::string_view uri :
       {"https://host/c/run7", "http://acct.blob.core.windows.net/c/run7", "https://acct.blob.core.windows.net",
        "https://.blob.core.windows.net/c", "https://acct.blob.core.windows.net.example/c/run7",
        "https://a.b.blob.core.windows.net/c", "https://acct.z1x.blob.storage.azure.net/c",
        "https://acct.z1.blob.storage.azure.net.example/c", "https://acct.blob.core.windows.net/c/w.safetensors?sig=x"})
    EXPECT_TRUE(is_web_url(uri)) << uri;
}

TEST(AzurePlace, ASignedAddressIsOnlyRead) {
  const auto store = *open_store("https://acct.blob.core.windows.net/c/run7?sv=1&sig=SECRET", {});
  const Status refused = store->prepare();
  EXPECT_EQ(code(refused), "UNSUPPORTED");
  EXPECT_NE(refused.message().find("sas_token"), std::string::npos) << refused.message();
  EXPECT_EQ((refused.message() + store->uri()).find("SECRET"), std::string::npos) << refused.message();
}

// ---- signatures and checksums ----

// By azure-storage-blob 12.31.1 and azure-storage-extensions 0.1.0, 2026-11-30.
TEST(AzureSigns, AsMicrosoftsClientDoes) {
  std::string key = *parse_base64(kKey);
  const std::string_view account = "devstoreaccount1";
  const std::string date = http_date(784111777);
  EXPECT_EQ(date, "Sun, 06 Nov 1994 08:49:37 GMT");
  const ToSign request{account,
                       "PUT",
                       "/devstoreaccount1/ckpt-test/run%207/d/x",
                       {{"timeout", "5"}, {"comp", "blocklist"}},
                       {{"x-ms-meta-ckptput", "11"},
                        {"x-ms-version", kVersion},
                        {"x-ms-date", date},
                        {"if-none-match", "*"},
                        {"content-type", "application/xml"},
                        {"x-ms-blob-type", "BlockBlob"}},
                       5};
  EXPECT_EQ(shared_key(request, key), "SharedKey devstoreaccount1:o9dlX3O7ffIlYmHnb/xiyiLhx0v+xfFtc+m/sLTJNV8=");
  EXPECT_EQ(read_signature(account, "ckpt-test/run 7/d/x", key, kNow),
            "se=2027-01-15T08%3A00%3A00Z&sig=%2Bltoe86ZbOAH1vmeKA9ZTVDV17sjVDmBwQjclWzu%2B3I%3D&sp=r&sr=b&"
            "sv=2021-12-02");
}

TEST(AzureSigns, ChecksumsAreThoseOfMicrosoftsAndOpensslsPrograms) {
  const Bytes pieces[] = {as_bytes("12345"), as_bytes("6789")};
  EXPECT_EQ(crc64_header(pieces), "iJh5CoYUi64=");
  EXPECT_EQ(crc64_header({}), "AAAAAAAAAAA=");
  EXPECT_EQ(*md5_header(pieces), "JfnnlDI7RTiF9RgfG2JNCw==");
}

TEST(AzureSigns, AChecksumIsTheSameHoweverItsBytesAreCut) {
  Pattern data(1000, 7);
  for (size_t size : {1, 63, 64, 65, 127, 128, 200, 1000}) {
    uint64_t crc = ~uint64_t{0};
    for (std::byte byte : data.bytes().first(size)) {
      crc ^= static_cast<uint64_t>(byte);
      for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x9a6c9329ac4bc9b5 : 0);
    }
    crc = ~crc;
    const std::string expected = base64_of(std::as_bytes(std::span(&crc, 1)));
    for (size_t cut = 0; cut < size; cut += 21) {
      const Bytes pieces[] = {data.bytes().first(cut), data.bytes().subspan(cut, size - cut)};
      EXPECT_EQ(crc64_header(pieces), expected) << size << " cut at " << cut;
    }
  }
}

// ---- credentials ----

struct Microsoft : gcs::Google {
  Config config;
  // "WHAT from SOURCE", or the error.
  std::string found(int64_t now = kNow) {
    CredentialChain ours(config, *http);
    const auto credentials = ours.get(now);
    if (!credentials.ok()) return code(credentials.status()) + ": " + credentials.status().message();
    const std::string what = !(*credentials)->key.empty()   ? "key"
                             : !(*credentials)->sas.empty() ? (*credentials)->sas
                                                            : (*credentials)->value;
    return what + " from " + (*credentials)->source;
  }
  void set(const std::string& name, const std::string& value) { config.variables[name] = value; }
  Microsoft() {
    config.account = "acct";
    config.scheme = "https";
    config.host = "acct.blob.core.windows.net";
    config.instance = server.endpoint();
    answer = [](const Request&) { return answer_of("404 Not Found", ""); };
  }
};

TEST(AzureCredentials, TheFirstThatIsConfiguredCounts) {
  Microsoft microsoft;
  EXPECT_EQ(microsoft.found(), " from nobody (no credentials were found)");
  microsoft.answer = [](const auto&) { return gcs::token_answer("T"); };
  EXPECT_EQ(microsoft.found(), "T from the managed identity");
  for (const char* name : {"AZURE_TENANT_ID", "AZURE_CLIENT_ID"}) microsoft.set(name, "x");
  microsoft.set("AZURE_AUTHORITY_HOST", microsoft.server.endpoint());
  microsoft.set("AZURE_FEDERATED_TOKEN_FILE", microsoft.write("assertion", "a\n"));
  EXPECT_EQ(microsoft.found(), "T from AZURE_FEDERATED_TOKEN_FILE");
  microsoft.set("AZURE_CLIENT_SECRET", "s");
  EXPECT_EQ(microsoft.found(), "T from AZURE_CLIENT_SECRET");
  microsoft.set("AZURE_STORAGE_ACCOUNT", "acct");
  microsoft.set("AZURE_STORAGE_SAS_TOKEN", "?sv=2&sig=y");
  EXPECT_EQ(microsoft.found(), "sv=2&sig=y from AZURE_STORAGE_SAS_TOKEN");
  microsoft.set("AZURE_STORAGE_KEY", kKey);
  EXPECT_EQ(microsoft.found(), "key from AZURE_STORAGE_KEY");
  microsoft.set("AZURE_STORAGE_CONNECTION_STRING",
                "BlobEndpoint=https://acct.blob.core.windows.net/;"
                "SharedAccessSignature=sv=1&sig=x");
  EXPECT_EQ(microsoft.found(), "sv=1&sig=x from AZURE_STORAGE_CONNECTION_STRING");
  microsoft.config.sas = "sv=0&sig=o";
  EXPECT_EQ(microsoft.found(), "sv=0&sig=o from option sas_token");
}

TEST(AzureCredentials, KeysOfOneAccountGoToNoOther) {
  Microsoft microsoft;
  microsoft.set("AZURE_STORAGE_ACCOUNT", "other");
  microsoft.set("AZURE_STORAGE_KEY", kKey);
  microsoft.set("AZURE_STORAGE_SAS_TOKEN", "sv=2&sig=y");
  for (const std::string& text :
       {"AccountName=other;AccountKey=" + kKey,
        std::string("BlobEndpoint=https://acct.blob.core.windows.network;SharedAccessSignature=sv=1&sig=x")}) {
    microsoft.set("AZURE_STORAGE_CONNECTION_STRING", text);
    EXPECT_EQ(microsoft.found(), " from nobody (no credentials were found)") << text;
  }
}

TEST(AzureCredentials, AWorkloadShowsItsAssertionAndAServicePrincipalItsSecret) {
  Microsoft microsoft;
  microsoft.set("AZURE_TENANT_ID", "tenant");
  microsoft.set("AZURE_CLIENT_ID", "client");
  microsoft.set("AZURE_AUTHORITY_HOST", microsoft.server.endpoint() + "/");
  microsoft.set("AZURE_FEDERATED_TOKEN_FILE", microsoft.write("assertion", "a.b.c\n"));
  microsoft.answer = [](const auto&) { return gcs::token_answer("T"); };
  EXPECT_EQ(microsoft.found(), "T from AZURE_FEDERATED_TOKEN_FILE");
  microsoft.set("AZURE_CLIENT_SECRET", "s+cret");
  EXPECT_EQ(microsoft.found(), "T from AZURE_CLIENT_SECRET");
  ASSERT_EQ(microsoft.asked.size(), 2u);
  for (const auto& request : microsoft.asked) {
    EXPECT_EQ(request.line, "POST /tenant/oauth2/v2.0/token");
    EXPECT_EQ(request.field("grant_type"), "client_credentials");
    EXPECT_EQ(request.field("client_id"), "client");
    EXPECT_EQ(request.field("scope"), "https://storage.azure.com/.default");
  }
  EXPECT_EQ(microsoft.asked[0].field("client_assertion"), "a.b.c");
  EXPECT_EQ(microsoft.asked[1].field("client_secret"), "s+cret");
}

TEST(AzureCredentials, AMachineIsAskedAsItsKindWants) {
  Microsoft microsoft;
  microsoft.answer = [](const auto&) {
    return answer_of("200 OK", R"({"access_token":"T","expires_on":"1800003600","token_type":"Bearer"})");
  };
  EXPECT_EQ(microsoft.found(), "T from the managed identity");
  microsoft.set("IDENTITY_ENDPOINT", microsoft.server.endpoint() + "/msi/token");
  microsoft.set("IDENTITY_HEADER", "s3cret-header");
  microsoft.set("AZURE_CLIENT_ID", "client");
  EXPECT_EQ(microsoft.found(), "T from the managed identity");
  ASSERT_EQ(microsoft.asked.size(), 2u);
  EXPECT_EQ(microsoft.asked[0].line,
            "GET /metadata/identity/oauth2/token?api-version=2018-02-01&resource="
            "https%3A%2F%2Fstorage.azure.com%2F");
  EXPECT_EQ(header_of(microsoft.asked[0].head, "metadata"), "true");
  EXPECT_EQ(microsoft.asked[1].line,
            "GET /msi/token?api-version=2019-08-01&client_id=client&resource="
            "https%3A%2F%2Fstorage.azure.com%2F");
  EXPECT_EQ(header_of(microsoft.asked[1].head, "x-identity-header"), "s3cret-header");
  microsoft.set("IDENTITY_ENDPOINT", "http://192.0.2.1/msi/token");
  EXPECT_TRUE(microsoft.found().starts_with("INVALID: ")) << microsoft.found();
}

TEST(AzureCredentials, ARefusalIsNamedWithoutSecrets) {
  Microsoft microsoft;
  microsoft.set("AZURE_TENANT_ID", "tenant");
  microsoft.set("AZURE_CLIENT_ID", "client");
  microsoft.set("AZURE_CLIENT_SECRET", "s3cret+word");
  microsoft.set("AZURE_AUTHORITY_HOST", microsoft.server.endpoint());
  microsoft.answer = [](const auto&) {
    return answer_of("401 Unauthorized", R"({"error":"invalid_client","error_description":)"
                                         R"("AADSTS7000215: Invalid client secret s3cret+word. Trace ID: 1 Correl"})");
  };
  EXPECT_EQ(microsoft.found(),
            "IO: credentials of AZURE_CLIENT_SECRET: HTTP status 401 invalid_client AADSTS7000215: Invalid client "
            "secret ***.");
  microsoft.set("AZURE_AUTHORITY_HOST", "http://192.0.2.1");
  EXPECT_TRUE(microsoft.found().starts_with("INVALID: ")) << microsoft.found();
  for (const char* wrong : {"no base64", "abc"}) {
    microsoft.set("AZURE_STORAGE_CONNECTION_STRING", std::string("AccountName=acct;AccountKey=") + wrong);
    EXPECT_EQ(microsoft.found(),
              "INVALID: credentials of AZURE_STORAGE_CONNECTION_STRING: the key of an account is "
              "base64");
  }
}

// ---- strangers ----

// Answers of one server, by the first line and the head of a request.
class Stranger {
 public:
  using Answer = std::function<std::string(const std::string& line, const std::string& head)>;
  explicit Stranger(Answer answer)
      : server_([this, answer = std::move(answer)](int client, const std::string& head, const std::string&) {
          std::lock_guard lock(mutex_);
          heads += head;
          const std::string made = answer(head.substr(0, head.find('\r')), head);
          return send_all(client, head.starts_with("HEAD") ? made.substr(0, made.find("\r\n\r\n") + 4) : made);
        }) {
    options.endpoint = server_.endpoint() + "/acct";
    options.timing.retry_ms = options.timing.first_ms = 50;
    options.sas_token = "sv=1&sig=s3cret%2Bsig";
  }
  std::shared_ptr<Store> store() const { return *open_bucket("az://c/run", options); }
  S3Options options;
  std::string heads;

 private:
  std::mutex mutex_;
  HttpServer server_;
};

std::string refusal(const std::string& status, const std::string& error) {
  std::string answer = answer_of(status, "<Error><Code>" + error + "</Code><Message>words\nTime:1</Message></Error>");
  return answer.insert(answer.find("\r\n"), "\r\nx-ms-error-code: " + error);
}
std::string object_answer(const std::string& headers) {
  return "HTTP/1.1 200 OK\r\netag: \"1\"\r\ncontent-length: 0\r\n" + headers + "\r\n";
}
std::string list_answer(const std::string& blobs) {
  return answer_of("200 OK", "<EnumerationResults><Blobs>" + blobs + "</Blobs><NextMarker/></EnumerationResults>");
}

TEST(AzureStrangers, OnlyTheServicesOwnWordsOfABlobAreAnAbsence) {
  const auto told = [](const std::string& answer) {
    const Stranger server([&](const auto&, const auto&) { return answer; });
    const auto found = server.store()->exists("s1/MANIFEST");
    return found.ok() ? (*found ? std::string("there") : std::string("absent")) : code(found.status());
  };
  EXPECT_EQ(told(refusal("404 Not Found", "BlobNotFound")), "absent");
  EXPECT_EQ(told(refusal("404 Not Found", "ContainerNotFound")), "IO");
  EXPECT_EQ(told(refusal("404 Not Found", "ResourceNotFound")), "IO");
  EXPECT_EQ(told(answer_of("404 Not Found", "<html>Not Found</html>")), "IO");
  EXPECT_EQ(told(object_answer("")), "there");
}

TEST(AzureStrangers, A404WithoutACodeIsAskedAgain) {
  int asked = 0;
  const Stranger server([&](const auto&, const auto&) {
    return ++asked == 1 ? answer_of("404 Not Found", "") : refusal("404 Not Found", "BlobNotFound");
  });
  EXPECT_FALSE(*server.store()->exists("s1/MANIFEST"));
  EXPECT_EQ(asked, 2);
}

// Of an account that has them, and those of programs that mark them.
TEST(AzureStrangers, ADirectoryIsNoObject) {
  for (const std::string mark : {"x-ms-meta-hdi_isfolder: true\r\n", "x-ms-resource-type: directory\r\n"}) {
    const Stranger server([&](const auto&, const auto&) { return object_answer(mark); });
    EXPECT_FALSE(*server.store()->exists("s1"));
    EXPECT_EQ(code(server.store()->open("s1").status()), "NOT_FOUND");
  }
  const std::string size = "<Content-Length>0</Content-Length><Etag>0x1</Etag>";
  const Stranger server([&](const auto&, const auto&) {
    return list_answer(
        "<BlobPrefix><Name>run/a/</Name></BlobPrefix><Blob><Name>run/a</Name><Properties>" + size +
        "<ResourceType>directory</ResourceType></Properties></Blob><Blob><Name>run/b</Name><Properties>" + size +
        "</Properties><Metadata><Hdi_isfolder>x</Hdi_isfolder><hdi_isfolder>true</hdi_isfolder>" +
        "</Metadata></Blob><Blob><Name>run/c</Name><Properties>" + size + "</Properties></Blob>");
  });
  const auto listed = *server.store()->list("");
  ASSERT_EQ(listed.size(), 3u);
  EXPECT_TRUE(listed[0].directory && listed[0].name == "a");
  EXPECT_TRUE(listed[1].directory && listed[1].name == "b");
  EXPECT_EQ(listed[2].version, "\"0x1\"") << "as an answer has it that brings the object";
}

TEST(AzureStrangers, AListIsWhatSaysThatItIsOne) {
  const std::string deep(200000, '<');
  for (const std::string& body :
       {std::string("<html></html>"), std::string("{}"), deep, std::string("<EnumerationResults/>"),
        std::string("<EnumerationResults><Blobs><Blob><Name>run/a</Name></Blob></Blobs></EnumerationResults>"),
        std::string("<EnumerationResults><Blobs/><NextMarker>m</NextMarker></EnumerationResults>")}) {
    const Stranger server([&](const auto&, const auto&) { return answer_of("200 OK", body); });
    EXPECT_EQ(code(server.store()->list("").status()), "IO") << body.substr(0, 80);
  }
}

TEST(AzureStrangers, AServerWithoutCrc64GetsMd5) {
  const Stranger server([](const auto&, const std::string& head) {
    if (!header_of(head, "x-ms-content-crc64").empty())
      return refusal("500 Internal Server Error", "FeatureNotSupported");
    return object_answer("");
  });
  EXPECT_EQ(code(server.store()->put_if_absent("a", as_bytes("x"))), "OK");
  EXPECT_NE(server.heads.find("content-md5: ndTkYSaMgDT1yFZOFVxnpg=="), std::string::npos) << server.heads;
}

// Its list finds no blocks, since another one was committed.
TEST(AzureStrangers, AnUploadWhoseBlocksAreGoneHasLostTheRace) {
  const auto told = [](const std::string& put_by) {
    std::string own;
    const Stranger server([&](const std::string& line, const std::string& head) {
      if (line.starts_with("HEAD"))
        return object_answer("x-ms-meta-ckptput: " + (put_by.empty() ? own : put_by) + "\r\n");
      if (line.find("comp=blocklist") == line.npos) return object_answer("");
      own = header_of(head, "x-ms-meta-ckptput");
      return refusal("400 Bad Request", "InvalidBlockList");
    });
    cloud::ObjectWriter writer(*AzureBucket::make("az://c/run", server.options), "d/a", 0, 1);
    EXPECT_EQ(code(writer.write_at(0, as_bytes("x"))), "OK");
    return code(writer.publish(1));
  };
  EXPECT_EQ(told("another"), "EXISTS");
  EXPECT_EQ(told(""), "OK") << "it was its own, and the answer got lost";
}

// A look that gets no answer at first must not make "removed by somebody" of its own.
TEST(AzureStrangers, AnUploadThatIsUnknownIsLookedForUntilThereIsAnAnswer) {
  int looks = 0;
  std::string own;
  const Stranger server([&](const std::string& line, const std::string& head) {
    if (line.starts_with("HEAD"))
      return ++looks == 1 ? refusal("503 Service Unavailable", "ServerBusy")
                          : object_answer("x-ms-meta-ckptput: " + own + "\r\n");
    if (line.find("comp=blocklist") == line.npos) return object_answer("");
    own = header_of(head, "x-ms-meta-ckptput");
    return refusal("400 Bad Request", "InvalidBlockList");
  });
  cloud::ObjectWriter writer(*AzureBucket::make("az://c/run", server.options), "d/a", 0, 1);
  ASSERT_EQ(code(writer.write_at(0, as_bytes("x"))), "OK");
  EXPECT_EQ(code(writer.publish(1)), "OK");
  EXPECT_EQ(looks, 2);
}

// The service answers 404 for a source that it cannot reach or read, too.
TEST(AzureStrangers, ACopyThatTheServiceCannotMakeIsNoAbsenceOfItsSource) {
  const auto told = [](bool is_there) {
    bool copied = false;
    const Stranger server([&](const std::string& line, const std::string& head) {
      if (!header_of(head, "x-ms-copy-source").empty()) {
        copied = true;
        return refusal("404 Not Found", "CannotVerifyCopySource");
      }
      const bool of_source = line.find("/from?") != line.npos;
      return of_source && (is_there || !copied) ? object_answer("") : refusal("404 Not Found", "BlobNotFound");
    });
    return code((*AzureBucket::make("az://c/run", server.options))->copy("from", "\"1\"", "to"));
  };
  EXPECT_EQ(told(true), "UNSUPPORTED");
  EXPECT_EQ(told(false), "GONE");
}

// A block of the same id that another writer stages takes the place of the first.
TEST(AzureStrangers, NoTwoUploadsHaveABlockIdInCommon) {
  std::vector<std::string> ids;
  const Stranger server([&](const std::string& line, const auto&) {
    const size_t at = line.find("blockid=");
    if (at != line.npos) ids.push_back(line.substr(at, line.find_first_of("& ", at) - at));
    return object_answer("");
  });
  const auto bucket = *AzureBucket::make("az://c/run", server.options);
  for (int i = 0; i < 2; i++) {
    bool checksums = true;
    const Upload upload{"d/a", *bucket->begin_upload("d/a", "", &checksums)};
    for (size_t number : {0, 1}) EXPECT_TRUE(bucket->send_piece(upload, number, {}, "").ok());
  }
  ASSERT_EQ(ids.size(), 4u);
  for (const std::string& id : ids) EXPECT_EQ(id.size(), ids[0].size());
  std::ranges::sort(ids);
  EXPECT_EQ(std::ranges::unique(ids).size(), 0u);
}

TEST(AzureStrangers, ASignatureIsInNoErrorAndGoesByHttpsOrToThisMachineOnly) {
  Stranger server([](const std::string& line, const auto&) {
    return refusal("403 Forbidden", "Line " + line.substr(line.find("sig=") + 4, 12) + " s3cret+sig");
  });
  const Status refused = server.store()->list("").status();
  EXPECT_NE(server.heads.find("sig=s3cret%2Bsig"), std::string::npos);
  EXPECT_EQ(refused.message().find("s3cret"), std::string::npos) << refused.message();
  EXPECT_EQ(server.store()->uri(), "az://c/run");
  server.options.endpoint = "http://192.0.2.1:9/acct";
  EXPECT_EQ(code(server.store()->list("").status()), "INVALID");
}

TEST(AzureStrangers, WhatBearsASecretWithoutTlsPassesByEveryProxy) {
  const Stranger proxy([](const auto&, const auto&) { return list_answer(""); });
  const Environment environment({{"http_proxy", proxy.options.endpoint}, {"no_proxy", ""}});
  const Stranger server([](const auto&, const auto&) { return list_answer(""); });
  EXPECT_EQ(code(server.store()->list("").status()), "OK");
  EXPECT_EQ(proxy.heads, "");
  EXPECT_NE(server.heads, "");
}

// Whoever reads it may use it for an hour.
TEST(AzureStrangers, ASharedKeyMakesNoSignatureForACopyWithoutTls) {
  const Environment environment({{"AZURE_STORAGE_CONNECTION_STRING",
                                  "AccountName=acct;AccountKey=" + kKey + ";BlobEndpoint=http://192.0.2.1:9/acct"}});
  const auto bucket = *AzureBucket::make("az://c/run", {});
  EXPECT_EQ(code(bucket->copy("from", "\"1\"", "to")), "UNSUPPORTED");
}

}  // namespace
}  // namespace ckpt::store::azure
