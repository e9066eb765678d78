package service

import (
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/login"
)

// exposedRemedy is for a password that others can read between here and Postgres.
const exposedRemedy = "Use sslmode=verify-full in postgres.dsn, or let the server ask for SCRAM " +
	"(password_encryption = scram-sha-256, and a new password) and set require_auth=scram-sha-256 there."

// warnOfLogins logs each server once to which a password goes that others can read.
func warnOfLogins(log *zap.Logger) {
	var warned sync.Map
	login.Observe(func(server, method string) {
		if _, before := warned.LoadOrStore(server+method, true); !before {
			log.Warn("a password goes to Postgres without encryption", zap.String(logkey.Address, server),
				zap.String(logkey.Method, method), zap.String(logkey.Next, exposedRemedy))
		}
	})
}

// watchLogins returns a function that lists the servers to which a password went, since the call, that others can read.
func watchLogins() func() []preflight.Finding {
	var exposed sync.Map
	login.Observe(func(server, method string) { exposed.Store(server, method) })
	return func() (out []preflight.Finding) {
		exposed.Range(func(server, method any) bool {
			out = append(out, preflight.Finding{
				Level: preflight.Warn, Code: "exposed_password", Subject: fmt.Sprintf("postgres %v", server),
				Found:  fmt.Sprintf("It asks for the password by the method %v, without encryption.", method),
				Why:    "Anyone between this machine and the server can read it, or log in with what is sent.",
				Remedy: exposedRemedy,
			})
			return true
		})
		return out
	}
}
