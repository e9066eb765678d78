//go:build crds

package kubernetes

// Keeps the module in go.mod. Its custom resource definitions are read as files; nothing of it is compiled.
import _ "github.com/cloudnative-pg/cloudnative-pg/api/v1"
