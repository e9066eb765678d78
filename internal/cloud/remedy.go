package cloud

import (
	"fmt"
	"strconv"
	"strings"
)

// Words in capitals in the commands are for people to fill in: what a service calls an instance or a group cannot be seen by SQL.

// Set is how a setting of the server is changed: a command to paste. restart: it takes effect with a restart only.
func (s Service) Set(name, value string, restart bool) string {
	switch s {
	case RDS, Aurora:
		return s.setInGroup(name, value, restart)
	case CloudSQL:
		return fmt.Sprintf("# name each flag that is set already as well: those left out go back to their defaults\n"+
			"gcloud sql instances patch INSTANCE --database-flags=%s=%s\n# see which there are: gcloud sql flags list --filter=\"name:%s\"", name, value, name)
	case AlloyDB:
		return fmt.Sprintf("# name each flag that is set already as well: those left out go back to their defaults\n"+
			"gcloud alloydb instances update INSTANCE --cluster=CLUSTER --region=REGION --database-flags=%s=%s", name, value)
	case Azure:
		text := fmt.Sprintf("az postgres flexible-server parameter set --resource-group GROUP --server-name SERVER --name %s --value %s", name, value)
		if restart {
			text += "\naz postgres flexible-server restart --resource-group GROUP --name SERVER"
		}
		return text
	case Supabase:
		return fmt.Sprintf("supabase --experimental --project-ref PROJECT postgres-config update --config %s=%s", name, value)
	case Neon:
		return fmt.Sprintf("# %s cannot be changed there: ask Neon's support", name)
	}
	if restart {
		return fmt.Sprintf("ALTER SYSTEM SET %s = '%s';\n-- then restart the server", name, value)
	}
	return fmt.Sprintf("ALTER SYSTEM SET %s = '%s';\nSELECT pg_reload_conf();", name, value)
}

// setInGroup: RDS keeps settings in parameter groups, Aurora in cluster parameter groups. The default groups cannot be
// changed.
func (s Service) setInGroup(name, value string, restart bool) string {
	apply := "immediate"
	if restart {
		apply = "pending-reboot"
	}
	command := "aws rds modify-db-parameter-group --db-parameter-group-name GROUP"
	if s == Aurora {
		command = "aws rds modify-db-cluster-parameter-group --db-cluster-parameter-group-name GROUP"
	}
	text := fmt.Sprintf("# GROUP is one of your own, the default one cannot be changed\n%s --parameters \"ParameterName=%s,ParameterValue=%s,ApplyMethod=%s\"",
		command, name, value, apply)
	if restart {
		text += "\naws rds reboot-db-instance --db-instance-identifier INSTANCE"
	}
	return text
}

// LogicalDecoding turns wal_level = logical on.
func (s Service) LogicalDecoding() string {
	switch s {
	case RDS, Aurora:
		return s.Set("rds.logical_replication", "1", true)
	case CloudSQL:
		return s.Set("cloudsql.logical_decoding", "on", true)
	case AlloyDB:
		return s.Set("alloydb.logical_decoding", "on", true)
	case Supabase:
		return "# it is logical there from the start: ask Supabase's support"
	case Neon:
		return "# in the console: Settings, Logical Replication, Enable. It restarts every compute of the project and cannot be turned off again"
	}
	return s.Set("wal_level", "logical", true)
}

// Replication lets a role replicate. role is its name, quoted its name as an SQL identifier.
func (s Service) Replication(role, quoted string) string {
	switch s {
	case RDS, Aurora:
		return fmt.Sprintf("GRANT rds_replication TO %s;", quoted)
	case CloudSQL, AlloyDB:
		return fmt.Sprintf("ALTER USER %s WITH REPLICATION;", quoted)
	case Azure:
		return fmt.Sprintf("ALTER ROLE %s WITH REPLICATION;", quoted)
	case Supabase:
		return fmt.Sprintf("-- as the role postgres, from PostgreSQL 17 on; before, use the role postgres itself\nALTER ROLE %s WITH REPLICATION;", quoted)
	case Neon:
		if !plain(role) {
			role = "NAME"
		}
		return fmt.Sprintf("# roles that are made by SQL cannot be given it; those made in the console, by CLI or API have it\nneon roles create --name %s", role)
	}
	return fmt.Sprintf("ALTER ROLE %s REPLICATION;", quoted)
}

// GrantsReplication reports whether replication is a membership on the service, not an attribute of the role.
func (s Service) GrantsReplication() bool { return s == RDS || s == Aurora }

// LimitWAL sets max_slot_wal_keep_size.
func (s Service) LimitWAL(megabytes int64) string {
	switch s {
	case Azure:
		return "# the parameter is read-only there: let the storage grow, and alert on Storage Used\n" +
			"az postgres flexible-server update --resource-group GROUP --name SERVER --storage-auto-grow Enabled"
	case Plain, Supabase:
		if megabytes > 0 && megabytes%1024 == 0 {
			return s.Set("max_slot_wal_keep_size", strconv.FormatInt(megabytes/1024, 10)+"GB", false)
		}
		if megabytes > 0 {
			return s.Set("max_slot_wal_keep_size", strconv.FormatInt(megabytes, 10)+"MB", false)
		}
	}
	return s.Set("max_slot_wal_keep_size", strconv.FormatInt(megabytes, 10), false)
}

// LimitsWAL reports whether LimitWAL sets a limit.
func (s Service) LimitsWAL() bool { return s != Azure && s != Neon }

// SenderTimeout sets wal_sender_timeout.
func (s Service) SenderTimeout(milliseconds int64) string {
	return s.Set("wal_sender_timeout", strconv.FormatInt(milliseconds, 10), false)
}

// IdleTimeout sets idle_replication_slot_timeout (18+); its unit is the second.
func (s Service) IdleTimeout(seconds int64) string {
	if s == Supabase {
		return "# idle_replication_slot_timeout is not among what the CLI changes: ask Supabase's support"
	}
	return s.Set("idle_replication_slot_timeout", strconv.FormatInt(seconds, 10), false)
}

// With adds to a remedy, as a comment, which page is about the service.
func (s Service) With(remedy string) string {
	if s == Plain {
		return remedy
	}
	sign := "#"
	if strings.HasSuffix(remedy, ";") {
		sign = "--"
	}
	return remedy + "\n" + sign + " " + s.Name() + ": " + s.Page()
}

// plain reports whether s needs no quotes in a shell command.
func plain(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// Remedies are all that a service's page has to hold, as they are printed for a role of that name.
func Remedies(s Service, role string) []string {
	return []string{
		s.LogicalDecoding(),
		s.Replication(role, `"`+role+`"`),
		s.Set("max_replication_slots", "20", true),
		s.Set("max_wal_senders", "20", true),
		s.LimitWAL(50 * 1024),
		s.SenderTimeout(60_000),
		s.IdleTimeout(7 * 24 * 60 * 60),
	}
}
