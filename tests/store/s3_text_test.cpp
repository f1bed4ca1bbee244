// What S3 stores are made of and needs no server: digests, signatures, XML, settings, credentials.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>

#include "s3/http_server.h"
#include "store/s3/credentials.h"
#include "store/s3/process.h"
#include "store/s3/xml.h"
#include "store/store_suite.h"

namespace ckpt::store::s3 {
namespace {

// ---- digests: FIPS 180-4, RFC 4231, RFC 3720 ----

TEST(Encoding, Sha256IsThatOfTheStandard) {
  EXPECT_EQ(hex_of(sha256(as_bytes(""))), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex_of(sha256(as_bytes("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex_of(sha256(as_bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  const std::string million(1000000, 'a');
  EXPECT_EQ(hex_of(sha256(as_bytes(million))), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Encoding, Sha256OfPiecesIsThatOfTheWhole) {
  const std::string text(300, 'x');
  for (size_t cut : {0, 1, 55, 56, 63, 64, 65, 299}) {
    const Bytes pieces[] = {as_bytes(text).first(cut), as_bytes(text).subspan(cut)};
    EXPECT_EQ(sha256(pieces), sha256(as_bytes(text))) << cut;
  }
}

TEST(Encoding, HmacIsThatOfTheStandard) {
  EXPECT_EQ(hex_of(hmac_sha256(as_bytes("Jefe"), as_bytes("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const std::string long_key(131, '\xaa');
  EXPECT_EQ(hex_of(hmac_sha256(as_bytes(long_key), as_bytes("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Encoding, Crc32cIsThatOfTheStandardHoweverItIsCut) {
  EXPECT_EQ(crc32c(0, as_bytes("123456789")), 0xe3069283u);
  const std::string zeros(32, '\0'), ones(32, '\xff');
  EXPECT_EQ(crc32c(0, as_bytes(zeros)), 0x8a9136aau);
  EXPECT_EQ(crc32c(0, as_bytes(ones)), 0x62a8ab43u);
  Pattern data(100001, 7);
  for (size_t cut : {0, 1, 7, 8, 4097, 100000})
    EXPECT_EQ(crc32c(crc32c(0, data.bytes().first(cut)), data.bytes().subspan(cut)), crc32c(0, data.bytes())) << cut;
  const Bytes pieces[] = {as_bytes("1234"), as_bytes("56789")};
  EXPECT_EQ(crc32c_header(pieces), "4waSgw==");
}

TEST(Encoding, Base64AndPercentAreThoseOfTheStandards) {
  const std::pair<const char*, const char*> base64[] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}};
  for (const auto& [text, expected] : base64) EXPECT_EQ(base64_of(as_bytes(text)), expected);
  EXPECT_EQ(percent_encode("a/b c+d=e&f~g\xc3\xa9", true), "a/b%20c%2Bd%3De%26f~g%C3%A9");
  EXPECT_EQ(percent_encode("a/b", false), "a%2Fb");
}

// ---- signatures: the examples of AWS' documentation ("Authenticating requests: using the authorization header") ----

const Keys kExampleKeys{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
constexpr std::string_view kNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string signature_of(std::string_view method, std::string_view path, const Query& query,
                         std::vector<Header> headers, std::string_view hash) {
  headers.push_back({"host", "examplebucket.s3.amazonaws.com"});
  headers.push_back({"x-amz-content-sha256", std::string(hash)});
  headers.push_back({"x-amz-date", "20130524T000000Z"});
  const std::string text = canonical_query(query);
  const std::string value =
      authorization({method, path, text, headers, hash}, kExampleKeys, "us-east-1", "s3", "20130524T000000Z");
  return value.substr(value.rfind('=') + 1);
}

TEST(Signature, IsThatOfTheExamplesOfAws) {
  EXPECT_EQ(signature_of("GET", "/test.txt", {}, {{"range", "bytes=0-9"}}, kNothing),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(signature_of("PUT", "/test%24file.text", {},
                         {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                         hex_of(sha256(as_bytes("Welcome to Amazon S3.")))),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  EXPECT_EQ(signature_of("GET", "/", {{"lifecycle", ""}}, {}, kNothing),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(signature_of("GET", "/", {{"prefix", "J"}, {"max-keys", "2"}}, {}, kNothing),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

// From AWS' Signature Version 4 test suite: get-vanilla, get-vanilla-query-order-key-case, get-header-value-trim.
TEST(Signature, IsThatOfTheTestSuiteOfAws) {
  const Keys keys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", ""};
  auto sign = [&](const Query& query, std::vector<Header> more) {
    more.push_back({"host", "example.amazonaws.com"});
    more.push_back({"x-amz-date", "20150830T123600Z"});
    const std::string text = canonical_query(query);
    return authorization({"GET", "/", text, more, kNothing}, keys, "us-east-1", "service", "20150830T123600Z");
  };
  EXPECT_EQ(
      sign({}, {}),
      "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
      "SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  EXPECT_NE(sign({{"Param2", "value2"}, {"Param1", "value1"}}, {})
                .find("Signature=b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
            std::string::npos);
  EXPECT_NE(sign({}, {{"my-header1", "value1"}, {"my-header2", "\"a   b   c\""}})
                .find("Signature=acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"),
            std::string::npos);
}

TEST(Signature, DatesAreInGreenwich) {
  EXPECT_EQ(amz_date(0), "19700101T000000Z");
  EXPECT_EQ(amz_date(1369353600), "20130524T000000Z");
}

// ---- XML ----

std::string xml_code(std::string_view text) { return code(parse_xml(text).status()); }

TEST(Xml, ReadsWhatServersAnswer) {
  auto root = parse_xml(
      "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- a server --><s3:Result xmlns:s3='http://x/'>\n"
      "<Key>a &lt;b&gt; &amp; &#x63;&#100;&#233;&#x1F600;&#1;</Key><Empty/><Empty a=\"1\" b = '2' />"
      "<Raw><![CDATA[<&>]]></Raw><Key>second</Key></s3:Result >\n<!-- end -->\n");
  ASSERT_TRUE(root.ok()) << root.status().message();
  EXPECT_EQ(root->name, "Result");
  EXPECT_EQ(root->text_of("Key"), "a <b> & cd\xc3\xa9\xf0\x9f\x98\x80\x01");
  EXPECT_EQ(root->text_of("Raw"), "<&>");
  EXPECT_EQ(root->text_of("None"), "");
  EXPECT_EQ(root->children.size(), 5u);
  EXPECT_EQ(parse_xml("<a>" + xml_escape("<x&\"y\">") + "</a>")->text, "<x&\"y\">");
}

TEST(Xml, RefusesWhatIsNone) {
  for (const char* text : {"",
                           "text",
                           "<a>",
                           "<a></b>",
                           "<a/><b/>",
                           "<a/>text",
                           "<a b></a>",
                           "<a b=c></a>",
                           "<a b=\"1\"c=\"2\"/>",
                           "<a",
                           "<a b=\"<\"/>",
                           "<a>&unknown;</a>",
                           "<a>&amp</a>",
                           "<a>&#;</a>",
                           "<a>&#xg;</a>",
                           "<a>&#0;</a>",
                           "<a>&#xd800;</a>",
                           "<a>&#x110000;</a>",
                           "<a>&#99999999999999999999;</a>",
                           "<a><!-- </a>",
                           "<a><![CDATA[</a>",
                           "<></>",
                           "<a:></a:>",
                           "<a></a",
                           "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>"})
    EXPECT_EQ(xml_code(text), "FORMAT") << text;
  std::string deep;
  for (int i = 0; i < 17; i++) deep += "<a>";
  for (int i = 0; i < 17; i++) deep += "</a>";
  EXPECT_EQ(xml_code(deep), "FORMAT");
}

// ---- settings ----

using Variables = std::vector<std::pair<std::string, std::string>>;

// Variables of the environment as long as a test runs, and no other AWS_… ones.
class Environment {
 public:
  explicit Environment(const Variables& set = {}) {
    for (const char* name : {"AWS_ACCESS_KEY_ID",
                             "AWS_SECRET_ACCESS_KEY",
                             "AWS_SESSION_TOKEN",
                             "AWS_PROFILE",
                             "AWS_REGION",
                             "AWS_DEFAULT_REGION",
                             "AWS_ENDPOINT_URL",
                             "AWS_ENDPOINT_URL_S3",
                             "AWS_CA_BUNDLE",
                             "AWS_CONFIG_FILE",
                             "AWS_SHARED_CREDENTIALS_FILE",
                             "AWS_WEB_IDENTITY_TOKEN_FILE",
                             "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                             "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                             "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                             "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                             "AWS_ENDPOINT_URL_STS",
                             "AWS_ROLE_ARN",
                             "AWS_ROLE_SESSION_NAME",
                             "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                             "AWS_EC2_METADATA_DISABLED",
                             "HOME"})
      change(name, nullptr);
    change("AWS_EC2_METADATA_DISABLED", "true");
    for (const auto& [name, value] : set) change(name.c_str(), value.c_str());
  }
  ~Environment() {
    for (auto before = before_.rbegin(); before != before_.rend(); ++before)
      before->second ? setenv(before->first.c_str(), before->second->c_str(), 1) : unsetenv(before->first.c_str());
  }

 private:
  void change(const char* name, const char* value) {
    const char* before = std::getenv(name);
    before_.emplace_back(name, before ? std::optional<std::string>(before) : std::nullopt);
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

std::string url_of(std::string_view uri, const S3Options& options = {}) {
  auto config = make_config(uri, options);
  return config.ok() ? config->endpoint() + config->base + "/" + config->key("d/x") : code(config.status());
}

TEST(S3Config, UrlsHaveTheBucketInTheHostAtAwsAndElseInThePath) {
  Environment none;
  EXPECT_EQ(url_of("s3://bucket/run7"), "https://bucket.s3.us-east-1.amazonaws.com/run7/d/x");
  EXPECT_EQ(url_of("s3://bucket", {.region = "eu-west-1"}), "https://bucket.s3.eu-west-1.amazonaws.com/d/x");
  EXPECT_EQ(url_of("s3://bucket", {.region = "cn-north-1"}), "https://bucket.s3.cn-north-1.amazonaws.com.cn/d/x");
  EXPECT_EQ(url_of("s3://my.bucket/a/b/"), "https://s3.us-east-1.amazonaws.com/my.bucket/a/b/d/x");
  EXPECT_EQ(url_of("s3://bucket", {.endpoint = "http://127.0.0.1:9000/"}), "http://127.0.0.1:9000/bucket/d/x");
  EXPECT_EQ(url_of("s3://bucket", {.endpoint = "minio.example"}), "https://minio.example/bucket/d/x");
  EXPECT_EQ(url_of("s3://bucket", {.endpoint = "https://minio.example:443"}), "https://minio.example/bucket/d/x");
  EXPECT_EQ(url_of("s3://bucket", {.endpoint = "https://h", .path_style = "off"}), "https://bucket.h/d/x");
  EXPECT_EQ(url_of("s3://bucket", {.path_style = "on"}), "https://s3.us-east-1.amazonaws.com/bucket/d/x");
}

TEST(S3Config, RefusesWhatIsNoBucketOrServer) {
  Environment none;
  for (const char* uri :
       {"s3://", "s3:///run", "s3://buck et/x", "s3://b?x=1/y", "s3://b/a//b", "s3://b/../c", "s3://b/./c"})
    EXPECT_EQ(url_of(uri), "INVALID") << uri;
  for (const char* endpoint : {"ftp://x", "http://", "http://x/path", "https://user@x", "http://x y"})
    EXPECT_EQ(url_of("s3://b", {.endpoint = endpoint}), "INVALID") << endpoint;
  EXPECT_EQ(url_of("s3://b", {.region = "eu west"}), "INVALID");
  for (const char* address : {"http://127.0.0.1:9000", "http://[::1]:9000"}) {
    EXPECT_EQ(url_of("s3://b", {.endpoint = address, .path_style = "off"}), "INVALID") << address;
    EXPECT_EQ(url_of("s3://b", {.endpoint = address}), std::string(address) + "/b/d/x");
  }
  const Status refused = make_config("s3://b", {.endpoint = "https://user:hidden@host"}).status();
  EXPECT_EQ(refused.message().find("hidden"), std::string::npos) << refused.message();
  EXPECT_EQ(url_of("s3://b", {.profile = "none"}), "INVALID");
}

// A folder like ~/.aws.
class AwsFolder {
 public:
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  Variables environment() const {
    return {{"AWS_CONFIG_FILE", folder_ / "config"}, {"AWS_SHARED_CREDENTIALS_FILE", folder_ / "credentials"}};
  }
  std::string operator/(const std::string& name) const { return folder_ / name; }

 private:
  Scratch folder_;
};

TEST(S3Config, OptionsComeBeforeTheEnvironmentAndThatBeforeTheProfile) {
  AwsFolder aws;
  aws.write("config",
            "# ours\n[default]\nregion = eu-central-1\r\nendpoint_url=https://one\n\n[profile two]\n"
            "region=ap-south-1\ns3 =\n  endpoint_url = https://nested\n");
  auto set = aws.environment();
  {
    Environment environment(set);
    EXPECT_EQ(make_config("s3://b", {})->region, "eu-central-1");
    EXPECT_EQ(make_config("s3://b", {})->endpoint(), "https://one");
    EXPECT_EQ(make_config("s3://b", {.profile = "two"})->region, "ap-south-1");
    EXPECT_EQ(make_config("s3://b", {.profile = "two"})->endpoint(), "https://b.s3.ap-south-1.amazonaws.com");
  }
  set.insert(set.end(), {{"AWS_REGION", "us-west-2"}, {"AWS_ENDPOINT_URL_S3", "https://two"}, {"AWS_PROFILE", "two"}});
  Environment environment(set);
  EXPECT_EQ(make_config("s3://b", {})->region, "us-west-2");
  EXPECT_EQ(make_config("s3://b", {})->endpoint(), "https://two");
  EXPECT_EQ(make_config("s3://b", {.endpoint = "https://three", .region = "us-east-2"})->endpoint(), "https://three");
  EXPECT_EQ(make_config("s3://b", {.region = "us-east-2"})->region, "us-east-2");
}

TEST(S3Config, ProfilesAreReadAsTheToolsOfAwsReadThem) {
  const Profile expected = {{"region", "r"}};
  for (const char* text :
       {"[profile a b]\nregion=r", "[profile \"a b\"]\nregion = r", "[ profile\t'a b' ] # mine\nregion=r",
        "[profile a b]\nRegion = r # home", "[profile a b]\nregion = r\t; home\n# x = y"})
    EXPECT_EQ(read_section(text, "profile a b"), expected) << text;
  EXPECT_EQ(read_section("[profile x]\nregion = a#b", "profile x"), (Profile{{"region", "a#b"}}));
  EXPECT_EQ(read_section("[x]\ncredential_process = sh -c 'a # b'", "x"),
            (Profile{{"credential_process", "sh -c 'a # b'"}}));
  EXPECT_EQ(read_section("[profiles]\na=b", "profile s"), Profile());
  AwsFolder aws;
  aws.write("config", "[default]\nregion = eu-west-1\n[profile default]\nregion = eu-west-2\n");
  Environment environment(aws.environment());
  EXPECT_EQ(make_config("s3://b", {})->region, "eu-west-2");
}

// ---- credentials ----

// "KEY/SECRET/TOKEN from SOURCE", or the code of the error.
std::string credentials_of(const S3Options& options = {}, std::string* error = nullptr) {
  auto config = make_config("s3://b", options);
  if (!config.ok()) return code(config.status());
  auto http = Http::make("");
  EXPECT_TRUE(http.ok()) << http.status().message();
  CredentialChain chain(*config, **http);
  auto found = chain.get(time(nullptr));
  if (error) *error = found.status().message();
  if (!found.ok()) return code(found.status());
  const Keys& keys = (*found)->keys;
  return keys.access_key + "/" + keys.secret_key + "/" + keys.session_token + " from " + (*found)->source;
}

TEST(S3Credentials, TheFirstSourceThatIsConfiguredCounts) {
  AwsFolder aws;
  aws.write("credentials",
            "[default]\naws_access_key_id=A\naws_secret_access_key = s+/=\naws_session_token=t\n"
            "[other]\naws_access_key_id=B\naws_secret_access_key=c\n");
  auto set = aws.environment();
  {
    Environment environment(set);
    EXPECT_EQ(credentials_of(), "A/s+/=/t from profile default");
    EXPECT_EQ(credentials_of({.profile = "other"}), "B/c/ from profile other");
  }
  set.insert(set.end(), {{"AWS_ACCESS_KEY_ID", "E"}, {"AWS_SECRET_ACCESS_KEY", "f"}});
  Environment environment(set);
  EXPECT_EQ(credentials_of(), "E/f/ from the environment");
  EXPECT_EQ(credentials_of({.profile = "other"}), "B/c/ from profile other");
}

TEST(S3Credentials, NobodyIsNobody) {
  Environment none;
  EXPECT_EQ(credentials_of(), "// from nobody (no credentials were found)");
}

TEST(S3Credentials, AProcessGivesThem) {
  AwsFolder aws;
  aws.write("config",
            "[default]\ncredential_process = echo '{\"Version\": 1, \"AccessKeyId\": \"P\", "
            "\"SecretAccessKey\": \"q\", \"SessionToken\": \"r\", \"Expiration\": \"2099-01-01T00:00:00Z\"}'\n"
            "[profile fails]\ncredential_process = echo secret-output; exit 3\n"
            "[profile empty]\ncredential_process = echo '{}'\n");
  Environment environment(aws.environment());
  EXPECT_EQ(credentials_of(), "P/q/r from credential_process of profile default");
  std::string error;
  EXPECT_EQ(credentials_of({.profile = "fails"}, &error), "IO");
  EXPECT_NE(error.find("status 3"), std::string::npos) << error;
  EXPECT_EQ(error.find("secret-output"), std::string::npos) << error;
  EXPECT_EQ(credentials_of({.profile = "empty"}), "FORMAT");
}

TEST(S3Credentials, AProcessCountsUntilItEndsWhateverItLeavesBehind) {
  EXPECT_EQ(*output_of("echo a; (sleep 100; echo b) & echo c"), "a\nc\n");
  EXPECT_EQ(*output_of("cat; echo end"), "end\n") << "what a trainer reads is not for it";
  EXPECT_EQ(output_of("exec >&-; exit 4").status().code(), CKPT_IO);
  EXPECT_EQ(output_of("yes").status().code(), CKPT_IO) << "more than a MiB";
  EXPECT_EQ(output_of("kill -9 $$").status().code(), CKPT_IO);
}

TEST(S3Credentials, HalfOfAKeyIsInvalidAndWhatCannotBeUsedSaysSo) {
  AwsFolder aws;
  aws.write("config", "[profile role]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = default\n");
  auto set = aws.environment();
  {
    Environment environment(set);
    std::string error;
    EXPECT_EQ(credentials_of({.profile = "role"}, &error), "UNSUPPORTED");
    EXPECT_NE(error.find("credential_process"), std::string::npos) << error;
  }
  Environment environment(Variables{{"AWS_ACCESS_KEY_ID", "E"}});
  EXPECT_EQ(credentials_of(), "INVALID");
}

std::string json_keys(const std::string& expires) {
  return "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"s\",\"Token\":\"t\",\"SessionToken\":\"t\",\"Expiration\":\"" +
         expires + "\"}";
}
bool holds(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

TEST(S3Credentials, AnInstanceGivesThemToWhoeverHasAToken) {
  HttpServer server([](int client, const std::string& head, const std::string&) {
    const std::string line = head.substr(0, head.find(" HTTP"));
    if (line == "PUT /latest/api/token" && holds(head, "x-aws-ec2-metadata-token-ttl-seconds: 21600"))
      return send_all(client, answer_of("200 OK", "a-token"));
    if (!holds(head, "x-aws-ec2-metadata-token: a-token")) return send_all(client, answer_of("401 Unauthorized", ""));
    if (line == "GET /latest/meta-data/iam/security-credentials/")
      return send_all(client, answer_of("200 OK", "a-role\n"));
    if (line == "GET /latest/meta-data/iam/security-credentials/a-role")
      return send_all(client, answer_of("200 OK", json_keys("2099-01-01T00:00:00Z")));
    return send_all(client, answer_of("404 Not Found", ""));
  });
  Environment environment(
      {{"AWS_EC2_METADATA_DISABLED", "false"}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.endpoint()}});
  EXPECT_EQ(credentials_of(), "A/s/t from the instance's metadata");
}

TEST(S3Credentials, AContainerGivesThemByItsEndpointButNoStrangerIsAsked) {
  HttpServer server([](int client, const std::string& head, const std::string&) {
    const bool asked = head.starts_with("GET /keys ") && holds(head, "authorization: Bearer x\r\n");
    return send_all(client, answer_of(asked ? "200 OK" : "403 Forbidden", json_keys("2099-01-01T00:00:00Z")));
  });
  AwsFolder aws;
  aws.write("token", "Bearer x\n");
  {
    Environment environment({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.endpoint() + "/keys"},
                             {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", aws / "token"}});
    EXPECT_EQ(credentials_of(), "A/s/t from the container's endpoint");
  }
  {
    Environment environment(Variables{{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.endpoint() + "/keys"}});
    EXPECT_EQ(credentials_of(), "IO");
  }
  Environment environment(Variables{{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/keys"}});
  EXPECT_EQ(credentials_of(), "INVALID");
}

TEST(S3Credentials, AWebIdentityIsExchangedForThem) {
  HttpServer server([](int client, const std::string& head, const std::string& body) {
    const bool asked = head.starts_with("POST / ") && holds(body, "WebIdentityToken=the%2Btoken") &&
                       holds(body, "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fx") &&
                       holds(body, "Action=AssumeRoleWithWebIdentity");
    return send_all(client,
                    answer_of(asked ? "200 OK" : "400 Bad Request",
                              "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
                              "<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>A</AccessKeyId>"
                              "<SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"
                              "<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>"
                              "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"));
  });
  AwsFolder aws;
  aws.write("token", "the+token\n");
  Environment environment({{"AWS_WEB_IDENTITY_TOKEN_FILE", aws / "token"},
                           {"AWS_ROLE_ARN", "arn:aws:iam::1:role/x"},
                           {"AWS_ENDPOINT_URL_STS", server.endpoint()}});
  EXPECT_EQ(credentials_of(), "A/s/t from web identity " + (aws / "token"));
}

// As JSON has it.
std::string iso_of(int64_t seconds) {
  const std::string date = amz_date(seconds);  // 20130524T000000Z
  return date.substr(0, 4) + "-" + date.substr(4, 2) + "-" + date.substr(6, 5) + ":" + date.substr(11, 2) + ":" +
         date.substr(13, 2) + "Z";
}

// A container's endpoint whose answers a test chooses, and a chain that asks it.
struct Container {
  std::function<std::string(int number)> answer;  // the first one has number 1
  std::atomic<int> asked = 0;
  HttpServer server{
      [this](int client, const std::string&, const std::string&) { return send_all(client, answer(++asked)); }};
  Environment environment{Variables{{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.endpoint() + "/keys"}}};
  Config config = *make_config("s3://b", {});
  std::unique_ptr<Http> http = Http::make("").take();
  CredentialChain chain{config, *http};

  std::string key_at(int64_t now) {
    auto found = chain.get(now);
    return found.ok() ? (*found)->keys.access_key : code(found.status());
  }
};
std::string key_until(const std::string& key, int64_t end) {
  return answer_of("200 OK", "{\"AccessKeyId\":\"" + key +
                                 "\",\"SecretAccessKey\":\"s\",\"Token\":\"t\",\"Expiration\":\"" + iso_of(end) +
                                 "\"}");
}
constexpr int64_t kNow = 1800000000;  // of the server, whatever this machine's clock says
const std::string kUnwilling = answer_of("500 Internal Server Error", "");

TEST(S3Credentials, TheyAreAskedForAgainBeforeTheyExpireOnceInHalfAMinuteAndTheOldOnesCountUntilTheEnd) {
  Container container;
  container.answer = [](int number) { return number == 1 ? key_until("A", kNow + 1000) : kUnwilling; };
  for (int i = 0; i < 3; i++) EXPECT_EQ(container.key_at(kNow), "A");
  EXPECT_EQ(container.asked, 1);
  for (int i = 0; i < 3; i++) EXPECT_EQ(container.key_at(kNow + 750), "A");
  EXPECT_EQ(container.asked, 4) << "one question, with three tries";
  EXPECT_EQ(container.key_at(kNow + 781), "A");
  EXPECT_EQ(container.asked, 7);
  EXPECT_EQ(container.key_at(kNow + 1001), "IO");
  container.answer = [](int) { return key_until("B", kNow + 9000); };
  EXPECT_EQ(container.key_at(kNow + 1002), "B");
}

TEST(S3Credentials, AServiceThatIsCrowdedIsAskedAgain) {
  Container container;
  container.answer = [](int number) {
    return number < 3 ? answer_of("429 Too Many Requests", "") : key_until("A", kNow + 1000);
  };
  EXPECT_EQ(container.key_at(kNow), "A");
}

TEST(S3Credentials, WhileOneThreadAsksForNewOnesTheOthersUseTheOld) {
  Container container;
  std::promise<void> asked, enough;
  container.answer = [&](int number) {
    if (number == 1) return key_until("A", kNow + 100);
    asked.set_value();
    enough.get_future().wait();
    return key_until("B", kNow + 9000);
  };
  EXPECT_EQ(container.key_at(kNow), "A");
  std::string of_who_asked;
  std::jthread asking([&] { of_who_asked = container.key_at(kNow + 50); });
  asked.get_future().wait();
  EXPECT_EQ(container.key_at(kNow + 50), "A") << "it would wait for ever";
  enough.set_value();
  asking.join();
  EXPECT_EQ(of_who_asked, "B");
  EXPECT_EQ(container.key_at(kNow + 50), "B");
}

// An instance whose metadata a test breaks.
TEST(S3Credentials, KnownOnesAreNeverGivenUpForNobodyAndNobodyMayBecomeSomebody) {
  std::atomic<bool> is_there = false;
  std::atomic<int> failing = 0, questions = 0;
  HttpServer server([&](int client, const std::string& head, const std::string&) {
    if (!is_there) return send_all(client, answer_of("404 Not Found", ""));
    if (head.starts_with("PUT")) questions++;
    if (failing-- > 0) return send_all(client, answer_of("503 Service Unavailable", ""));
    if (head.starts_with("PUT")) return send_all(client, answer_of("200 OK", "a-token"));
    if (head.starts_with("GET /latest/meta-data/iam/security-credentials/ "))
      return send_all(client, answer_of("200 OK", "a-role"));
    return send_all(client, key_until("A", kNow + 1000));
  });
  Environment environment(
      {{"AWS_EC2_METADATA_DISABLED", "false"}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.endpoint()}});
  const Config config = *make_config("s3://b", {});
  auto http = Http::make("").take();
  CredentialChain chain(config, *http);
  auto key_at = [&](int64_t now) { return (*chain.get(now))->keys.access_key; };
  EXPECT_EQ(key_at(kNow - 60), "");
  is_there = true;
  failing = 2;
  EXPECT_EQ(key_at(kNow), "A");
  EXPECT_EQ(questions, 3) << "a service that is crowded is no service that is absent";
  is_there = false;
  EXPECT_EQ(key_at(kNow + 800), "A");
  EXPECT_EQ(code(chain.get(kNow + 1001).status()), "IO");
}

TEST(S3Credentials, ExpiredOnesAreAskedForAgainOnce) {
  AwsFolder aws;
  aws.write("config", "[default]\ncredential_process = echo x >> " + (aws / "asked") +
                          "; echo '{\"AccessKeyId\":\"'$(wc -l <" + (aws / "asked") +
                          ")'\",\"SecretAccessKey\":\"s\"}'\n");
  std::vector<std::string> keys;
  HttpServer server([&](int client, const std::string& head, const std::string&) {
    keys.push_back(head.substr(head.find("Credential=") + 11, 1));
    return send_all(client, keys.size() == 2
                                ? answer_of("500 Internal Server Error", "")
                                : answer_of("400 Bad Request", "<Error><Code>ExpiredToken</Code></Error>"));
  });
  Environment environment(aws.environment());
  auto store = open_s3("s3://b", {.endpoint = server.endpoint()});
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(code((*store)->list("").status()), "IO");
  EXPECT_EQ(keys, (std::vector<std::string>{"1", "2", "2"})) << "refused, failed and tried again, refused for good";
  EXPECT_EQ(*read_small_file(aws / "asked"), "x\nx\n");
}

// As the helpers of single sign-on write it.
TEST(S3Credentials, AFileOfKeysIsReadAgainWhenTheServerRefusesThem) {
  AwsFolder aws;
  aws.write("credentials", "[default]\naws_access_key_id=OLD\naws_secret_access_key=s\naws_session_token=t\n");
  HttpServer server([&](int client, const std::string& head, const std::string&) {
    return send_all(client, holds(head, "Credential=NEW/")
                                ? answer_of("200 OK", "<ListBucketResult></ListBucketResult>")
                                : answer_of("400 Bad Request", "<Error><Code>ExpiredToken</Code></Error>"));
  });
  Environment environment(aws.environment());
  auto store = open_s3("s3://b", {.endpoint = server.endpoint()});
  EXPECT_EQ(code((*store)->list("").status()), "IO");
  auto later = open_s3("s3://b", {.endpoint = server.endpoint()});
  auto config = *make_config("s3://b", {});
  auto http = Http::make("").take();
  CredentialChain chain(config, *http);
  const auto old = *chain.get(kNow);
  EXPECT_FALSE(chain.refused(*old, kNow));
  aws.write("credentials", "[default]\naws_access_key_id=NEW\naws_secret_access_key=s\naws_session_token=t\n");
  EXPECT_FALSE(chain.refused(*old, kNow + 29));
  EXPECT_TRUE(chain.refused(**chain.get(kNow + 31), kNow + 31));
  EXPECT_EQ((*chain.get(kNow + 31))->keys.access_key, "NEW");
  EXPECT_EQ(code((*later)->list("").status()), "OK");
}

TEST(S3Credentials, TheEnvironmentIsThatOfTheOpening) {
  Config config;
  {
    Environment environment(Variables{{"AWS_ACCESS_KEY_ID", "E"}, {"AWS_SECRET_ACCESS_KEY", "f"}});
    config = *make_config("s3://b", {});
  }
  auto http = Http::make("").take();
  EXPECT_EQ((*CredentialChain(config, *http).get(kNow))->keys.access_key, "E");
}

TEST(S3Credentials, ATokenGoesToNoStrangerWhoseNameBeginsAsOurs) {
  for (const char* stranger :
       {"http://localhost.evil.example/", "http://127.evil.example/", "http://127.0.0.1.evil.example",
        "http://localhost@evil.example/", "http://127.0.0.1@evil.example/", "http://[::1].evil/",
        "http://169.254.170.2.evil.example/", "ftp://localhost/", "http:///"}) {
    Environment environment(Variables{{"AWS_CONTAINER_CREDENTIALS_FULL_URI", stranger}});
    EXPECT_EQ(credentials_of(), "INVALID") << stranger;
  }
}

TEST(S3Credentials, ARoleComesBeforeTheKeysOfItsProfile) {
  AwsFolder aws;
  aws.write("config", "[profile role]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = role\n");
  aws.write("credentials", "[role]\naws_access_key_id=A\naws_secret_access_key=s\n");
  Environment environment(aws.environment());
  EXPECT_EQ(credentials_of({.profile = "role"}), "UNSUPPORTED");
}

TEST(S3Credentials, ARefusalOfAWebIdentityIsNamed) {
  HttpServer server([](int client, const std::string&, const std::string&) {
    return send_all(client, answer_of("403 Forbidden",
                                      "<ErrorResponse><Error><Code>AccessDenied</Code><Message>the+token"
                                      "</Message></Error></ErrorResponse>"));
  });
  AwsFolder aws;
  aws.write("token", "the+token\n");
  Environment environment({{"AWS_WEB_IDENTITY_TOKEN_FILE", aws / "token"},
                           {"AWS_ROLE_ARN", "arn:aws:iam::1:role/x"},
                           {"AWS_ENDPOINT_URL_STS", server.endpoint()}});
  std::string error;
  EXPECT_EQ(credentials_of({}, &error), "IO");
  EXPECT_NE(error.find("AccessDenied"), std::string::npos) << error;
  EXPECT_EQ(error.find("the+token"), std::string::npos) << error;
}

TEST(Encoding, DatesHaveZones) {
  EXPECT_EQ(seconds_of_iso("2030-01-02T03:04:05Z"), 1893553445);
  EXPECT_EQ(seconds_of_iso("2030-01-02T03:04:05.678Z"), 1893553445);
  EXPECT_EQ(seconds_of_iso("2030-01-02T12:04:05+09:00"), 1893553445);
  EXPECT_EQ(seconds_of_iso("2030-01-01T23:34:05-0330"), 1893553445);
  for (const char* text :
       {"", "soon", "2030-01-02", "2030-01-02T03:04:05", "2030-01-02T03:04:05+9", "2030-01-02T03:04:05Zx"})
    EXPECT_EQ(seconds_of_iso(text), -1) << text;
}

TEST(S3Credentials, TheirJsonIsReadStrictly) {
  auto parsed = parse_credentials(
      "{\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"b\",\"Token\":\"c\",\"Expiration\":\"2030-01-02T03:04:05Z\"}",
      "Token", "x");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->keys.session_token, "c");
  EXPECT_EQ(parsed->expires, 1893553445);
  for (const char* text : {"", "[]", "{\"AccessKeyId\":1,\"SecretAccessKey\":\"b\"}", "{\"AccessKeyId\":\"a\"}",
                           "{\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"b\",\"Expiration\":\"soon\"}"})
    EXPECT_EQ(code(parse_credentials(text, "Token", "x").status()), "FORMAT") << text;
}

}  // namespace
}  // namespace ckpt::store::s3
