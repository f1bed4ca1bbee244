// A bucket whose objects tell of themselves in headers, whose conditions are HTTP's own, and whose lists and errors are
// XML: what S3 and Azure have in common. May be used by many threads.
#pragma once

#include "store/cloud/bucket.h"
#include "store/cloud/xml.h"

namespace ckpt::store::cloud {

class XmlBucket : public Bucket {
 public:
  Status read(std::string_view key, const ObjectInfo& object, uint64_t offset, MutableBytes out) override;
  Outcome put(const Put& put) override;

 protected:
  using Bucket::Bucket;

  // The headers that have an object's number and its checksum.
  struct Names {
    const char *put_by, *checksum;
  };
  virtual Names names() const = 0;
  // Whether the answer says that a condition does not hold.
  virtual bool is_refusal(const Answer& answer) const { return answer.is(412); }

  // From the answer of GET or HEAD.
  Result<ObjectInfo> describe(std::string_view key, const HttpReply& reply) const;
  // Of a copy whose source is `key`.
  Status copy_error(std::string_view key, const Answer& answer, const Request& request) const;
  // Of a completion that was no success. `given_up`: the service says that there is no such upload.
  Outcome not_completed(const Answer& answer, const Request& request, bool given_up) const;

  // One page of a list: what the server said, as an element of that name.
  struct XmlPage {
    XmlElement root;
    int64_t date = -1;  // of the answer
  };
  Result<XmlPage> list_xml(std::string_view directory, Query query, std::string_view root);

  // Code and words. Servers and what stands before them may echo what they got, so the secrets of the request are
  // blotted.
  static void read_xml(Answer* answer, const std::vector<std::string>& secrets);
};

}  // namespace ckpt::store::cloud
