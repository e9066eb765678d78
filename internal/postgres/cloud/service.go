// Package cloud knows the managed Postgres services: by which marks a session recognises a service, and which commands
// take the place of ALTER SYSTEM and of a superuser there. It is pure: facts in, text out. Its knowledge of a service
// comes from the service's own documentation; docs/clouds names the pages.
package cloud

import "slices"

// Service is a managed Postgres, Plain for every other.
type Service string

// The services. The values are stable: programs that read `check --json` see them.
const (
	Plain    Service = ""
	RDS      Service = "amazon_rds"
	Aurora   Service = "amazon_aurora"
	CloudSQL Service = "google_cloud_sql"
	AlloyDB  Service = "google_alloydb"
	Azure    Service = "azure"
	Supabase Service = "supabase"
	Neon     Service = "neon"
)

// Services lists the services that Recognise knows.
func Services() []Service { return []Service{RDS, Aurora, CloudSQL, AlloyDB, Azure, Supabase, Neon} }

// Name is the service's name for people.
func (s Service) Name() string {
	switch s {
	case RDS:
		return "Amazon RDS for PostgreSQL"
	case Aurora:
		return "Amazon Aurora PostgreSQL"
	case CloudSQL:
		return "Google Cloud SQL for PostgreSQL"
	case AlloyDB:
		return "Google AlloyDB for PostgreSQL"
	case Azure:
		return "Azure Database for PostgreSQL"
	case Supabase:
		return "Supabase"
	case Neon:
		return "Neon"
	}
	return "PostgreSQL"
}

// Page is the page about the service in this repository.
func (s Service) Page() string {
	switch s {
	case RDS, Aurora:
		return "docs/clouds/amazon-rds-aurora.md"
	case CloudSQL, AlloyDB:
		return "docs/clouds/google-cloud-sql.md"
	case Plain:
		return "docs/deploy.md"
	}
	return "docs/clouds/" + string(s) + ".md"
}

// Proxied reports whether the service's ordinary address leads through a proxy that copies the stream and reports pids
// of its own.
func (s Service) Proxied() bool { return s == Neon }

// Facts are what a session can see of its server.
type Facts struct {
	Settings  []string // the MarkerSettings that are set
	Roles     []string // the MarkerRoles that exist
	Bootstrap string   // the role that initdb made (OID 10)
	Aurora    bool     // the server has a function aurora_version()
}

// marks are a service's traces. A dump that was restored elsewhere brings the service's roles along, and any user may
// choose the name of a role or a setting: so Recognise requires traces of two kinds.
type marks struct {
	service   Service
	settings  []string
	roles     []string
	bootstrap string
}

var known = []marks{
	{RDS, []string{"rds.logical_replication", "rds.extensions"}, []string{"rds_superuser"}, "rdsadmin"},
	{
		CloudSQL,
		[]string{"cloudsql.logical_decoding", "cloudsql.iam_authentication"},
		[]string{"cloudsqlsuperuser"},
		"cloudsqladmin",
	},
	{
		AlloyDB,
		[]string{"alloydb.logical_decoding", "alloydb.iam_authentication"},
		[]string{"alloydbsuperuser"},
		"alloydbadmin",
	},
	{Azure, []string{"azure.extensions"}, []string{"azure_pg_admin"}, "azuresu"},
	{Supabase, []string{"supautils.reserved_roles"}, []string{"supabase_auth_admin"}, "supabase_admin"},
	{Neon, []string{"neon.timeline_id", "neon.project_id"}, []string{"neon_superuser"}, "cloud_admin"},
}

// MarkerSettings are the settings that tell a service.
func MarkerSettings() (out []string) {
	for _, m := range known {
		out = append(out, m.settings...)
	}
	return out
}

// MarkerRoles are the roles that tell a service.
func MarkerRoles() (out []string) {
	for _, m := range known {
		out = append(out, m.roles...)
	}
	return out
}

// Recognise returns the service, or Plain where the traces are too few or fit two services.
func Recognise(f Facts) Service {
	found := Plain
	for _, m := range known {
		kinds := 0
		if meet(f.Settings, m.settings) {
			kinds++
		}
		if meet(f.Roles, m.roles) {
			kinds++
		}
		if f.Bootstrap == m.bootstrap {
			kinds++
		}
		if kinds < 2 {
			continue
		}
		if found != Plain {
			return Plain
		}
		found = m.service
	}
	if found == RDS && f.Aurora {
		return Aurora
	}
	return found
}

func meet(have, want []string) bool {
	return slices.ContainsFunc(want, func(name string) bool { return slices.Contains(have, name) })
}
