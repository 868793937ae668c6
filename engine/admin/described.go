package admin

import (
	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/stats"
)

// description is what a route takes and answers.
type description struct{ body, answer any }

// describedRoutes are the bodies and answers of this package's routes, for the document:
// values whose types count. What is not here has neither, or an answer that is not
// of one type. A test holds each key to a route.
func describedRoutes() map[string]description {
	return map[string]description{
		"GET /api/overview":                              {nil, Overview{}},
		"GET /api/auth":                                  {nil, Auth{}},
		"GET /api/whoami":                                {nil, WhoAmI{}},
		"GET /api/nodes":                                 {nil, []Node{}},
		"GET /api/nodes/{node}":                          {nil, Node{}},
		"GET /api/nodes/{node}/memory":                   {nil, map[string]Memory{}},
		"GET /api/auth/attempts/{node}":                  {nil, []stats.ProtocolAttempts{}},
		"GET /api/auth/attempts/{node}/source":           {nil, []stats.SourceAttempts{}},
		"PUT /api/auth/hash_password":                    {struct{ Password string }{}, map[string]string{}},
		"GET /api/auth/hash_password/{password}":         {nil, map[string]string{}},
		"GET /api/cluster-name":                          {nil, nameBody{}},
		"PUT /api/cluster-name":                          {nameBody{}, nil},
		"GET /api/feature-flags":                         {nil, []FeatureFlag{}},
		"GET /api/deprecated-features":                   {nil, []DeprecatedFeature{}},
		"GET /api/deprecated-features/used":              {nil, []DeprecatedFeature{}},
		"GET /api/extensions":                            {nil, []any{}},
		"GET /api/federation-links":                      {nil, []any{}},
		"GET /api/federation-links/{vhost}":              {nil, []any{}},
		"GET /api/shovels":                               {nil, []any{}},
		"GET /api/shovels/{vhost}":                       {nil, []any{}},
		"POST /api/definitions":                          {map[string]any{}, Imported{}},
		"POST /api/definitions/upload":                   {map[string]any{}, Imported{}},
		"POST /api/definitions/{vhost}":                  {map[string]any{}, Imported{}},
		"POST /api/definitions/{vhost}/upload":           {map[string]any{}, Imported{}},
		"GET /api/definitions":                           {nil, map[string]any{}},
		"GET /api/definitions/{vhost}":                   {nil, map[string]any{}},
		"GET /api/vhosts":                                {nil, []VHost{}},
		"GET /api/vhosts/{vhost}":                        {nil, VHost{}},
		"PUT /api/vhosts/{vhost}":                        {VHostChange{}, nil},
		"GET /api/vhost-limits":                          {nil, []VHostLimits{}},
		"GET /api/vhost-limits/{vhost}":                  {nil, []VHostLimits{}},
		"PUT /api/vhost-limits/{vhost}/{limit}":          {numberBody{}, nil},
		"GET /api/user-limits":                           {nil, []UserLimits{}},
		"GET /api/user-limits/{user}":                    {nil, []UserLimits{}},
		"PUT /api/user-limits/{user}/{limit}":            {numberBody{}, nil},
		"GET /api/users":                                 {nil, []User{}},
		"GET /api/users/without-permissions":             {nil, []User{}},
		"GET /api/users/{user}":                          {nil, User{}},
		"PUT /api/users/{user}":                          {UserChange{}, nil},
		"PATCH /api/users/{user}":                        {UserChange{}, nil},
		"POST /api/users/bulk-delete":                    {map[string][]string{}, nil},
		"GET /api/permissions":                           {nil, []Permissions{}},
		"GET /api/users/{user}/permissions":              {nil, []Permissions{}},
		"GET /api/vhosts/{vhost}/permissions":            {nil, []Permissions{}},
		"GET /api/permissions/{vhost}/{user}":            {nil, Permissions{}},
		"PUT /api/permissions/{vhost}/{user}":            {Permissions{}, nil},
		"GET /api/topic-permissions":                     {nil, []TopicPermissions{}},
		"GET /api/users/{user}/topic-permissions":        {nil, []TopicPermissions{}},
		"GET /api/vhosts/{vhost}/topic-permissions":      {nil, []TopicPermissions{}},
		"GET /api/topic-permissions/{vhost}/{user}":      {nil, []TopicPermissions{}},
		"PUT /api/topic-permissions/{vhost}/{user}":      {TopicPermissions{}, nil},
		"GET /api/policies":                              {nil, []Policy{}},
		"GET /api/policies/{vhost}":                      {nil, []Policy{}},
		"GET /api/policies/{vhost}/{name}":               {nil, Policy{}},
		"PUT /api/policies/{vhost}/{name}":               {Policy{}, nil},
		"GET /api/operator-policies":                     {nil, []Policy{}},
		"GET /api/operator-policies/{vhost}":             {nil, []Policy{}},
		"GET /api/operator-policies/{vhost}/{name}":      {nil, Policy{}},
		"PUT /api/operator-policies/{vhost}/{name}":      {Policy{}, nil},
		"GET /api/parameters":                            {nil, []Parameter{}},
		"GET /api/parameters/{component}":                {nil, []Parameter{}},
		"GET /api/parameters/{component}/{vhost}":        {nil, []Parameter{}},
		"GET /api/parameters/{component}/{vhost}/{name}": {nil, Parameter{}},
		"PUT /api/parameters/{component}/{vhost}/{name}": {GlobalParameter{}, nil},
		"GET /api/global-parameters":                     {nil, []GlobalParameter{}},
		"GET /api/global-parameters/{name}":              {nil, GlobalParameter{}},
		"PUT /api/global-parameters/{name}":              {GlobalParameter{}, nil},
		"GET /api/exchanges":                             {nil, []Exchange{}},
		"GET /api/exchanges/{vhost}":                     {nil, []Exchange{}},
		"GET /api/exchanges/{vhost}/{name}":              {nil, ExchangeDetails{}},
		"PUT /api/exchanges/{vhost}/{name}":              {ExchangeDeclaration{}, nil},
		"POST /api/exchanges/{vhost}/{name}/publish":     {Publish{}, Routed{}},
		"POST /api/queues/{vhost}/{name}/move":           {MoveRequest{}, Moved{}},
		"GET /api/queues/{vhost}/{name}/unacked":         {nil, []amqp.UnackedInfo{}},
		"GET /api/aliveness-test/{vhost}":                {nil, map[string]string{}},
		"PUT /api/channels/{name}":                       {ChannelChange{}, nil},
		"GET /api/queues":                                {nil, []Queue{}},
		"GET /api/queues/{vhost}":                        {nil, []Queue{}},
		"GET /api/queues/{vhost}/{name}":                 {nil, Queue{}},
		"PUT /api/queues/{vhost}":                        {QueueDeclaration{}, nil},
		"PUT /api/queues/{vhost}/{name}":                 {QueueDeclaration{}, nil},
		"POST /api/queues/{vhost}/{name}/actions":        {map[string]string{}, nil},
		"DELETE /api/queues/{vhost}/{name}/contents":     {nil, map[string]int{}},
		"GET /api/connections":                           {nil, []Connection{}},
		"GET /api/vhosts/{vhost}/connections":            {nil, []Connection{}},
		"GET /api/connections/username/{user}":           {nil, []Connection{}},
		"GET /api/connections/{name}":                    {nil, Connection{}},
		"DELETE /api/connections":                        {nil, map[string]int{}},
		"GET /api/connections/{name}/channels":           {nil, []Channel{}},
		"GET /api/channels":                              {nil, []Channel{}},
		"GET /api/vhosts/{vhost}/channels":               {nil, []Channel{}},
		"GET /api/channels/{name}":                       {nil, Channel{}},
		"GET /api/consumers":                             {nil, []Consumer{}},
		"GET /api/consumers/{vhost}":                     {nil, []Consumer{}},
		"GET /api/bindings":                              {nil, []Binding{}},
		"GET /api/bindings/{vhost}":                      {nil, []Binding{}},
		"GET /api/queues/{vhost}/{name}/bindings":        {nil, []Binding{}},

		"GET /api/exchanges/{vhost}/{name}/bindings/source":             {nil, []Binding{}},
		"GET /api/exchanges/{vhost}/{name}/bindings/destination":        {nil, []Binding{}},
		"GET /api/bindings/{vhost}/e/{source}/q/{destination}":          {nil, []Binding{}},
		"GET /api/bindings/{vhost}/e/{source}/e/{destination}":          {nil, []Binding{}},
		"POST /api/bindings/{vhost}/e/{source}/q/{destination}":         {bindingBody{}, nil},
		"POST /api/bindings/{vhost}/e/{source}/e/{destination}":         {bindingBody{}, nil},
		"GET /api/bindings/{vhost}/e/{source}/q/{destination}/{props}":  {nil, Binding{}},
		"GET /api/bindings/{vhost}/e/{source}/e/{destination}/{props}":  {nil, Binding{}},
		"GET /api/health/checks/alarms":                                 {nil, health{}},
		"GET /api/health/checks/local-alarms":                           {nil, health{}},
		"GET /api/health/checks/certificate-expiration/{within}/{unit}": {nil, health{}},
		"GET /api/health/checks/port-listener/{port}":                   {nil, health{}},
		"GET /api/health/checks/protocol-listener/{protocol}":           {nil, health{}},
		"GET /api/health/checks/virtual-hosts":                          {nil, health{}},
		"GET /api/health/checks/node-is-mirror-sync-critical":           {nil, health{}},
		"GET /api/health/checks/node-is-quorum-critical":                {nil, health{}},
		"GET /api/health/checks/ready-to-serve-clients":                 {nil, health{}},
		"GET /api/health/checks/is-in-service":                          {nil, health{}},
		"GET /api/health/checks/below-node-connection-limit":            {nil, health{}},
		"GET /api/healthchecks/node":                                    {nil, health{}},
		"GET /api/healthchecks/node/{node}":                             {nil, health{}},
		"GET /docs/openapi.json":                                        {nil, map[string]any{}},
	}
}

// Bodies that have no type of their own.
type (
	nameBody struct {
		Name string `json:"name"`
	}
	numberBody struct {
		Value int64 `json:"value"`
	}
	bindingBody struct {
		RoutingKey string  `json:"routing_key"`
		Arguments  tableOf `json:"arguments"`
	}
)
