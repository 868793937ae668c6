package admin

import "strings"

// SingleSignOn is how browsers log in by an issuer of tokens (package sso).
type SingleSignOn struct {
	ClientID, Issuer, Scopes, ResourceID string
	Local                                bool   // names and passwords do, too
	Cookie                               string // has the token
}

// Auth is how to log in to a user interface, as RabbitMQ 4's wants to know it; the
// fields between are those of its versions before. The client's secret is nobody's
// business.
type Auth struct {
	Enabled bool `json:"oauth_enabled"`

	ClientID    string `json:"oauth_client_id,omitempty"`
	ProviderURL string `json:"oauth_provider_url,omitempty"`
	MetadataURL string `json:"oauth_metadata_url,omitempty"`
	ResourceID  string `json:"oauth_resource_id,omitempty"`
	Scopes      string `json:"oauth_scopes,omitempty"`
	NoBasic     *bool  `json:"oauth_disable_basic_auth,omitempty"`

	ResourceServers map[string]AuthResource `json:"oauth_resource_servers,omitempty"`
}

// AuthResource is what tokens are for.
type AuthResource struct {
	ID          string `json:"id"`
	ProviderURL string `json:"oauth_provider_url"`
	MetadataURL string `json:"oauth_metadata_url"`
}

func (s *SingleSignOn) auth() Auth {
	if s == nil {
		return Auth{}
	}
	noBasic := !s.Local
	metadata := strings.TrimSuffix(s.Issuer, "/") + "/.well-known/openid-configuration"
	return Auth{
		Enabled: true, ClientID: s.ClientID, ProviderURL: s.Issuer, MetadataURL: metadata, ResourceID: s.ResourceID, Scopes: s.Scopes, NoBasic: &noBasic,
		ResourceServers: map[string]AuthResource{s.ResourceID: {s.ResourceID, s.Issuer, metadata}},
	}
}
