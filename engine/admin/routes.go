package admin

// routes mounts this package's own.
func (h *Handler) routes() {
	h.overviewRoutes()
	h.nodeRoutes()
	h.healthRoutes()
	h.featureRoutes()
	h.definitionRoutes()
	h.userRoutes()
	h.vhostRoutes()
	h.policyRoutes()
	h.exchangeRoutes()
	h.queueRoutes()
	h.bindingRoutes()
	h.connectionRoutes()
	h.channelRoutes()
	h.docRoutes()
	h.messageRoutes()
	h.operationRoutes()
}
