// What may be seen of addresses.
#include "base/address.h"
#include "base/text.h"

#include <gtest/gtest.h>

#include <utility>

namespace ckpt {
namespace {

TEST(Address, UserPasswordQueryAndFragmentAreNotShownHoweverItIsMistyped) {
  for (const auto& [given, shown] : {
           std::pair("https://u:SECRET@h/a@b?q@/x", "https://h/a@b"),
           std::pair("HTTPS://u:SECRET@h:80/x", "HTTPS://h:80/x"),
           std::pair("https://SECRET@h/x#SECRET", "https://h/x"),
           std::pair("http://u:SEC/RET@h/x", "http://h/x"),
           std::pair("http://u:SEC?RET#@h/x", "http://h/x"),
           std::pair("http://u:p@SECRET@h", "http://h"),
           std::pair("http://us er:SECRET@h h/x", "http://h h/x"),
           std::pair("http://u:SECRET@/x", "http:///x"),
           std::pair("http://u:SECRET", "http://u:…"),
           std::pair("htps://u:SECRET@h/x?SECRET", "htps://h/x"),
           std::pair("http:/u:SECRET@h/x", "http:/h/x"),
           std::pair("http//u:SECRET@h/x", "http//h/x"),
           std::pair("https:u:SECRET@h/x", "https:h/x"),
           std::pair("gs://u:SECRET@h/x?SECRET", "gs://h/x"),
           std::pair("abfss://c@a.dfs.core.windows.net/x?sig=SECRET", "abfss://c@a.dfs.core.windows.net/x"),
           std::pair("abfss://u:SECRET@h/x", "abfss://h/x"),
           std::pair("az://c/x?sig=SECRET", "az://c/x"),
           std::pair("s3://KEY:SECRET@b/x", "s3://b/x"),
           std::pair("s3://KEY:SEC/RET+x@b", "s3://b"),
           std::pair("s3://KEY:SECRET", "s3://KEY:…"),
           std::pair("s3://b/x?X-Amz-Signature=SECRET", "s3://b/x"),
           std::pair("S3://KEY:SECRET@b/x", "S3://b/x"),
           std::pair("s3://SECRET@b/x", "s3://b/x"),
           std::pair("http_s://u:SECRET@h/x", "http_s://h/x"),
           std::pair("https ://u:SECRET@h/x", "https ://h/x"),
           std::pair("https:// u:SECRET@h/x", "https:// h/x"),
           std::pair("https://[::1/u:SECRET@x", "https://x"),
           std::pair("file://u:SECRET@h", "file://h"),
           std::pair("FILE://u:SECRET@h/x", "FILE://h/x"),
       })
    EXPECT_EQ(shown_url(given), shown);
}

TEST(Address, WhatHasNoSecretIsShown) {
  for (const char* text :
       {"s3://bucket@label:x", "s3://bucket/run@step:5", "s3://b/x#1", "s3://b/a=b?#c", "https://h:8443/a/b@v1.pt",
        "http://[::1]:80/x", "http://[::1]", "/data/a?b", "/data/u:p@h", "mem:a@label:b", "file:///a?b#c",
        "file:///a@b", "file://h/a@b", "C:/x?y", "a:b@c", "", "s3://"}) {
    EXPECT_EQ(shown_url(text), text);
    EXPECT_EQ(without_secrets(text), text);
  }
  EXPECT_TRUE(is_address("htps://x"));
  for (const char* path : {"/a://b", "run:7/x", "mem:x", "file:///x", "http", "s3dir/x"})
    EXPECT_FALSE(is_address(path));
}

TEST(Address, InATextEachLosesItsSecrets) {
  for (const auto& [given, shown] : {
           std::pair("open http:/u:SECRET@h/x: No such file", "open http:/h/x: No such file"),
           std::pair("Unsupported proxy scheme for 'htp://u:SE CRET@h:1'", "Unsupported proxy scheme for 'htp://h:1'"),
           std::pair("\"https://u er:SECRET@h h/x\": found a user", "\"https://h h/x\": found a user"),
           std::pair("https://u:SECRET@h/x?SECRET, s3://K:SEC/RET@b.", "https://h/x, s3://b."),
           std::pair("/cwd/http:/u:SECRET@h", "/cwd/http:/h"),
           std::pair("open https:// u:SECRET@h: no", "open https:// h: no"),
           std::pair("(from http://127.0.0.1:80): GET at http://h:9: 404",
                     "(from http://127.0.0.1:80): GET at http://h:9: 404"),
           std::pair("is it http://h/x? http: no, https: yes", "is it http://h/x? http: no, https: yes"),
       })
    EXPECT_EQ(without_secrets(given), shown);
}

TEST(Address, WordsThatAreSecretAreBlotted) {
  const std::string secrets[] = {"SECRET-1", "", "abc", "***"};
  EXPECT_EQ(blotted("a SECRET-1SECRET-1 b abc (abc) abcd", secrets), "a ****** b *** (***) abcd")
      << "a short one as a word";
}

}  // namespace
}  // namespace ckpt
