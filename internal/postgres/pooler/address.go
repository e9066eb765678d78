package pooler

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// direct says where the server itself is, as far as is known.
func (w Route) direct() string {
	lead := "-- let postgres.dsn lead to the server itself"
	switch w.name() {
	case supavisor:
		return lead + ": " + w.supabase() + "\n-- it has an IPv6 address, and an IPv4 one with the add-on: " +
			"docs/clouds/supabase.md"
	case neonPool:
		first, rest, _ := strings.Cut(w.Host, ".")
		return fmt.Sprintf("%s, the host without \"-pooler\": %s.%s:5432\n-- docs/clouds/neon.md", lead,
			strings.TrimSuffix(first, "-pooler"), rest)
	case rdsProxy:
		return lead + ", to the endpoint of the instance or the writer endpoint of the cluster:\n" +
			"aws rds describe-db-instances --query 'DBInstances[].Endpoint.Address'\n" +
			"aws rds describe-db-clusters --query 'DBClusters[].Endpoint'\n-- docs/clouds/amazon-rds-aurora.md"
	case azurePool:
		return fmt.Sprintf("%s, the same host with the port of Postgres: %s:5432\n-- docs/clouds/azure.md", lead,
			w.Host)
	}
	if w.Behind != "" {
		return fmt.Sprintf("%s; the pooler's console names it %s", lead, w.Behind)
	}
	switch ip := net.ParseIP(w.ServerAddr); {
	case w.ServerPort == 0:
		return lead + ", not to the pooler or proxy; its configuration names the host and port"
	case ip == nil, ip.IsLoopback():
		return fmt.Sprintf("%s: it is on the machine of what is in between, port %d", lead, w.ServerPort)
	}
	return fmt.Sprintf("%s; what is in between reaches it at %s", lead,
		net.JoinHostPort(w.ServerAddr, strconv.Itoa(w.ServerPort)))
}

// supabase: the user names the project to the pooler, role.project; the direct host names it, and the user is the role.
func (w Route) supabase() string {
	role, project, ok := strings.Cut(w.User, ".")
	if !ok || !word(project) {
		return "db.PROJECT.supabase.co:5432, user without what follows the dot"
	}
	if !word(role) {
		return fmt.Sprintf("db.%s.supabase.co:5432, user without what follows the dot", project)
	}
	return fmt.Sprintf("db.%s.supabase.co:5432, user %s", project, role)
}

// word reports whether a name can be used in a host name or a command as it is.
func word(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return false
		}
	}
	return s != ""
}
