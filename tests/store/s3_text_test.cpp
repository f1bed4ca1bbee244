// What S3 stores are made of and needs no server: digests, signatures, XML, settings.
#include <gtest/gtest.h>

#include <filesystem>

#include "store/cloud/curl.h"
#include "store/cloud/xml.h"
#include "store/s3/config.h"
#include "store/s3/sign.h"
#include "store/s3_environment.h"
#include "store/store_suite.h"

namespace ckpt::store::s3 {
namespace {

// ---- certificates ----

TEST(Certificates, AreTheSystemsWhereThoseOfLibcurlAreNot) {
  const char* red_hat = "/etc/pki/tls/certs/ca-bundle.crt";
  for (const char* place : {"/etc/ssl/certs/ca-certificates.crt", red_hat, "/etc/ssl/cert.pem"}) {
    const Scratch root;
    EXPECT_EQ(cloud::other_certificates("/of/its/maker.pem", root.path), "");
    const std::filesystem::path file = root.path + place;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "-----BEGIN CERTIFICATE-----";
    EXPECT_EQ(cloud::other_certificates("/of/its/maker.pem", root.path), file);
    EXPECT_EQ(cloud::other_certificates(red_hat, root.path), place == red_hat ? "" : file.string());
    EXPECT_EQ(cloud::other_certificates(nullptr, root.path), "") << "its TLS library has its own";
  }
}

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

TEST(Encoding, DatesHaveZones) {
  EXPECT_EQ(seconds_of_iso("2030-01-02T03:04:05Z"), 1893553445);
  EXPECT_EQ(seconds_of_iso("2030-01-02T03:04:05.678Z"), 1893553445);
  EXPECT_EQ(seconds_of_iso("2030-01-02T12:04:05+09:00"), 1893553445);
  EXPECT_EQ(seconds_of_iso("2030-01-01T23:34:05-0330"), 1893553445);
  for (const char* text :
       {"", "soon", "2030-01-02", "2030-01-02T03:04:05", "2030-01-02T03:04:05+9", "2030-01-02T03:04:05Zx"})
    EXPECT_EQ(seconds_of_iso(text), -1) << text;
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

}  // namespace
}  // namespace ckpt::store::s3
