// The bucket of a store on the server of server.h, as its requests see it.
#pragma once

#include "s3/server.h"
#include "store/azure/azure_bucket.h"
#include "store/cloud/objects.h"
#include "store/gcs/gcs_bucket.h"
#include "store/s3/s3_bucket.h"

namespace ckpt::store {

inline std::shared_ptr<cloud::Bucket> bucket_at(std::string_view uri, const S3Options& options = s3_options()) {
  if (uri.starts_with("gs://")) return *gcs::GcsBucket::make(uri, options);
  if (uri.starts_with("az://")) return *azure::AzureBucket::make(uri, options);
  return *s3::S3Bucket::make(uri, options);
}

}  // namespace ckpt::store
