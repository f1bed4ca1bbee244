#include "store/azure/config.h"

#include "base/address.h"
#include "base/text.h"
#include "store/cloud/encoding.h"

namespace ckpt::store::azure {

// Azurite's, which is in its documents.
static constexpr std::string_view kDevelopment =
    "AccountName=devstoreaccount1;BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;AccountKey="
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

Connection read_connection(const Place& place) {
  const std::string text = place.variable("AZURE_STORAGE_CONNECTION_STRING");
  const bool development = in_lower_case(text).find("usedevelopmentstorage=true") != text.npos;
  Connection connection;
  for (std::string_view pair : split(development ? kDevelopment : std::string_view(text), ';'))
    if (const size_t equals = pair.find('='); equals != pair.npos)
      connection.insert_or_assign(in_lower_case(pair.substr(0, equals)), std::string(pair.substr(equals + 1)));
  return connection;
}

std::string setting(const Connection& connection, std::string_view name) {
  const auto found = connection.find(in_lower_case(name));
  return found == connection.end() ? "" : found->second;
}

std::string bare_sas(std::string sas) {
  if (sas.starts_with('?')) sas.erase(0, 1);
  return sas;
}

std::string Config::path_of(std::string_view key) const {
  return base + "/" + bucket + (key.empty() ? "" : "/" + percent_encode(key, true));
}

// ---- an address ----

namespace {

// What the forms that name an account have in common: the container and the account's endpoint.
struct Named {
  std::string plain;     // "az://container/prefix"
  std::string endpoint;  // "" if the URI names no account
};

Result<Named> read_form(std::string_view uri) {
  if (uri.starts_with("az://")) return Named{std::string(uri), ""};
  const size_t begin = uri.find("://") + 3;
  const std::string_view authority = uri.substr(begin, uri.find_first_of("/?#", begin) - begin),
                         rest = uri.substr(begin + authority.size());
  if (uri.starts_with("https://")) return Named{"az:/" + std::string(rest), "https://" + std::string(authority)};
  const size_t at = authority.find('@');
  std::string host(authority.substr(at == authority.npos ? authority.size() : at + 1));
  const size_t dfs = host.find(".dfs.");
  if (dfs != host.npos) host.replace(dfs, 5, ".blob.");  // the same objects, by the interface with conditional puts
  const std::string endpoint = "https://" + host;
  // Another host would get what the environment has for the account.
  if (at == authority.npos || bucket_address(endpoint + "/c").service != "az")
    return invalid_place(uri, "expected abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX");
  return Named{strformat("az://{}{}", authority.substr(0, at), rest), endpoint};
}

// "http://127.0.0.1:10000/devstoreaccount1" has the account in its path, "https://a.blob.core.windows.net" in its name.
Status read_azure_endpoint(std::string_view uri, std::string endpoint, Config* config) {
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const size_t host = endpoint.find("://") == endpoint.npos ? 0 : endpoint.find("://") + 3;
  const size_t slash = endpoint.find('/', host), dot = endpoint.find(".blob.", host);
  if (slash != endpoint.npos) {
    config->base = endpoint.substr(slash);
    config->account = config->base.substr(1);
    endpoint.resize(slash);
  } else if (dot != endpoint.npos) {
    config->account = endpoint.substr(host, endpoint.find('.', host) - host);
  }
  return read_endpoint(uri, endpoint, config);
}

bool is_account(std::string_view name) {
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == name.npos;
}

}  // namespace

Result<Config> make_config(std::string_view uri, const S3Options& options) {
  Config config;
  CKPT_ASSIGN(const Named named, read_form(uri));
  CKPT_TRY(read_uri(named.plain, &config));
  config.variables = read_variables({"AZURE_", "IDENTITY_"});
  config.ca_file = options.ca_file;
  config.conditional = options.conditional;
  config.grace_ms = options.grace_ms;
  config.timing = options.timing;
  config.sas = bare_sas(options.sas_token);
  const Connection connection = read_connection(config);
  const std::string of_environment =
      first_of({setting(connection, "AccountName"), config.variable("AZURE_STORAGE_ACCOUNT")});
  config.account = first_of({options.account, of_environment});
  std::string endpoint = first_of({named.endpoint, options.endpoint});
  if (endpoint.empty() && (options.account.empty() || options.account == of_environment))
    endpoint = setting(connection, "BlobEndpoint");
  if (endpoint.empty() && !config.account.empty())
    endpoint = strformat("https://{}.blob.{}", config.account,
                         first_of({setting(connection, "EndpointSuffix"), "core.windows.net"}));
  if (endpoint.empty())
    return invalid_place(uri,
                         "no storage account: set option account or AZURE_STORAGE_ACCOUNT, or write "
                         "https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX");
  CKPT_TRY(read_azure_endpoint(uri, endpoint, &config));
  if (!is_account(config.account))
    return invalid_place(uri,
                         "expected the name of a storage account, in its address, option account or "
                         "AZURE_STORAGE_ACCOUNT");
  // So that whoever opens it again needs no account beside it.
  if (!named.endpoint.empty()) config.address = named.endpoint + "/" + config.bucket;
  return config;
}

}  // namespace ckpt::store::azure
