#include "store/azure/credentials.h"

#include "base/base64.h"
#include "store/cloud/key_service.h"

namespace ckpt::store::azure {

static constexpr const char* kAudience = "https://storage.azure.com/";

Credentials::~Credentials() {
  wipe(key);
  wipe(sas);
}

// ---- keys and signatures ----

static Result<Credentials> of_secrets(std::string_view key, std::string sas, std::string source) {
  Credentials credentials;
  credentials.source = std::move(source);
  credentials.sas = key.empty() ? bare_sas(std::move(sas)) : "";
  const auto decoded = parse_base64(key);
  const auto wrong = [&](std::string_view why) {
    return Status(CKPT_INVALID, strformat("credentials of {}: {}", credentials.source, why));
  };
  if (!decoded) return wrong("the key of an account is base64");
  if (!is_sendable(credentials.sas) || credentials.sas.find_first_of(" #") != std::string::npos)
    return wrong("the shared access signature has characters that none has, such as a blank");
  credentials.key = *decoded;
  return credentials;
}

Result<Credentials> CredentialChain::ask(int64_t now) const {
  if (!config_.sas.empty()) return of_secrets("", config_.sas, "option sas_token");
  const Connection connection = read_connection(config_);
  const auto variable = [&](const char* name) { return config_.variable(name); };
  const std::string connected = setting(connection, "AccountKey"),
                    shared = setting(connection, "SharedAccessSignature"), named = setting(connection, "AccountName");
  // A connection string with a signature may name its endpoint alone.
  std::string endpoint = setting(connection, "BlobEndpoint");
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const bool is_ours = named.empty() ? endpoint == config_.endpoint() + config_.base : named == config_.account;
  if (is_ours && !(connected + shared).empty()) return of_secrets(connected, shared, "AZURE_STORAGE_CONNECTION_STRING");
  if (variable("AZURE_STORAGE_ACCOUNT") == config_.account) {
    if (const std::string key = variable("AZURE_STORAGE_KEY"); !key.empty())
      return of_secrets(key, "", "AZURE_STORAGE_KEY");
    if (const std::string sas = variable("AZURE_STORAGE_SAS_TOKEN"); !sas.empty())
      return of_secrets("", sas, "AZURE_STORAGE_SAS_TOKEN");
  }
  CKPT_ASSIGN(Token token, ask_token(now));
  return Credentials(std::move(token));
}

// ---- tokens ----

Result<Token> CredentialChain::ask_token(int64_t now) const {
  const std::string client = config_.variable("AZURE_CLIENT_ID");
  const bool of_tenant = !config_.variable("AZURE_TENANT_ID").empty() && !client.empty();
  const bool by_secret = !config_.variable("AZURE_CLIENT_SECRET").empty();
  if (of_tenant && (by_secret || !config_.variable("AZURE_FEDERATED_TOKEN_FILE").empty()))
    return of_application({http_, now, by_secret ? "AZURE_CLIENT_SECRET" : "AZURE_FEDERATED_TOKEN_FILE"});
  return of_machine({http_, now, "the managed identity"});
}

// A service principal has a secret, a workload what its cluster says of it.
Result<Token> CredentialChain::of_application(TokenQuestion question) const {
  std::string authority = first_of({config_.variable("AZURE_AUTHORITY_HOST"), "https://login.microsoftonline.com"});
  if (authority.find("://") == authority.npos) authority = "https://" + authority;
  CKPT_ASSIGN(web::Url url, private_url(question, authority, "AZURE_AUTHORITY_HOST"));
  url = url.below(config_.variable("AZURE_TENANT_ID")).below("oauth2/v2.0/token");
  Query form = {{"grant_type", "client_credentials"},
                {"client_id", config_.variable("AZURE_CLIENT_ID")},
                {"scope", std::string(kAudience) + ".default"}};
  if (question.source == "AZURE_CLIENT_SECRET") {
    form.push_back({"client_secret", config_.variable("AZURE_CLIENT_SECRET")});
  } else {
    CKPT_ASSIGN(std::string assertion, read_named(question, config_.variable("AZURE_FEDERATED_TOKEN_FILE")));
    form.push_back({"client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"});
    form.push_back({"client_assertion", single_line(std::move(assertion))});
  }
  return post_form(question, url, std::move(form));
}

// Of App Service and what does as it does, or of a virtual machine. Anonymous where there is neither.
Result<Token> CredentialChain::of_machine(TokenQuestion question) const {
  const std::string endpoint = config_.variable("IDENTITY_ENDPOINT"), secret = config_.variable("IDENTITY_HEADER"),
                    client = config_.variable("AZURE_CLIENT_ID");
  const bool of_service = !endpoint.empty() && !secret.empty();
  const std::string address = of_service ? endpoint : config_.instance + "/metadata/identity/oauth2/token";
  auto url = web::parse_url(address);
  // What is link-local, as the metadata of a machine, no cable carries.
  if (!url.ok() || !url->host.starts_with("169.254.")) url = private_url(question, address, "IDENTITY_ENDPOINT");
  if (!url.ok()) return std::move(url).status();
  Query query = {{"api-version", of_service ? "2019-08-01" : "2018-02-01"}, {"resource", kAudience}};
  if (!client.empty()) query.push_back({"client_id", client});
  url->query = "?" + canonical_query(query);
  const HttpReply reply = ask_key_service(
      http_, metadata_request(*url, {of_service ? Header{"x-identity-header", secret} : Header{"metadata", "true"}}));
  if (!of_service && client.empty() && is_no_instance(reply)) {
    Token nobody;
    nobody.source = "nobody (no credentials were found)";
    return nobody;
  }
  if (!reply.trouble.empty() || !reply.good()) return refusal_of(question, reply, std::span(&secret, 1));
  return read_token(question, reply.text);
}

}  // namespace ckpt::store::azure
