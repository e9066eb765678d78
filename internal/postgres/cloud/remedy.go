package cloud

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Words in capitals in the commands are for people to fill in: SQL does not show what a service calls an instance or a
// group.
const fillIn = " Replace the words in capitals."

// Set changes a setting of the server. restart: the change takes effect only after a restart.
func (s Service) Set(name, value string, restart bool) fault.Remedy {
	setIt := "Set " + name + "."
	if restart {
		setIt = "Set " + name + ", then restart the server."
	}
	switch s {
	case RDS, Aurora:
		return s.setInGroup(name, value, restart)
	case CloudSQL:
		return fault.Do(setIt+" Name each flag that is set already as well: flags that are left out return to "+
			"their defaults. `gcloud sql flags list` lists all flags."+fillIn,
			fmt.Sprintf("gcloud sql instances patch INSTANCE --database-flags=%s=%s", name, value))
	case AlloyDB:
		return fault.Do(setIt+" Name each flag that is set already as well: flags that are left out return to "+
			"their defaults."+fillIn,
			fmt.Sprintf("gcloud alloydb instances update INSTANCE --cluster=CLUSTER --region=REGION "+
				"--database-flags=%s=%s", name, value))
	case Azure:
		r := fault.Do(setIt+fillIn, fmt.Sprintf("az postgres flexible-server parameter set --resource-group GROUP "+
			"--server-name SERVER --name %s --value %s", name, value))
		if restart {
			r.Commands = append(r.Commands, "az postgres flexible-server restart --resource-group GROUP --name SERVER")
		}
		return r
	case Supabase:
		return fault.Do(setIt+fillIn, fmt.Sprintf("supabase --experimental --project-ref PROJECT postgres-config "+
			"update --config %s=%s", name, value))
	case Neon:
		return fault.Do(name + " cannot be changed there: ask Neon's support.")
	}
	alter := fmt.Sprintf("ALTER SYSTEM SET %s = '%s';", name, value)
	if restart {
		return fault.Do(setIt, alter)
	}
	return fault.Do(setIt, alter, "SELECT pg_reload_conf();")
}

// setInGroup: RDS keeps settings in parameter groups, Aurora in cluster parameter groups. The default groups cannot be
// changed.
func (s Service) setInGroup(name, value string, restart bool) fault.Remedy {
	apply, setIt := "immediate", "Set "+name
	if restart {
		apply, setIt = "pending-reboot", setIt+", then restart the instance"
	}
	command := "aws rds modify-db-parameter-group --db-parameter-group-name GROUP"
	if s == Aurora {
		command = "aws rds modify-db-cluster-parameter-group --db-cluster-parameter-group-name GROUP"
	}
	r := fault.Do(setIt+". GROUP is a parameter group of your own: the default group cannot be changed."+fillIn,
		fmt.Sprintf(
			"%s --parameters \"ParameterName=%s,ParameterValue=%s,ApplyMethod=%s\"", command, name, value, apply))
	if restart {
		r.Commands = append(r.Commands, "aws rds reboot-db-instance --db-instance-identifier INSTANCE")
	}
	return r
}

// LogicalDecoding turns wal_level = logical on.
func (s Service) LogicalDecoding() fault.Remedy {
	switch s {
	case RDS, Aurora:
		return s.Set("rds.logical_replication", "1", true)
	case CloudSQL:
		return s.Set("cloudsql.logical_decoding", "on", true)
	case AlloyDB:
		return s.Set("alloydb.logical_decoding", "on", true)
	case Supabase:
		return fault.Do("It is logical there from the start: ask Supabase's support.")
	case Neon:
		return fault.Do("Enable it in the console: Settings, Logical Replication, Enable. This restarts every " +
			"compute of the project and cannot be undone.")
	}
	return s.Set("wal_level", "logical", true)
}

// Replication lets a role replicate. role is its name, quoted its name as an SQL identifier.
func (s Service) Replication(role, quoted string) fault.Remedy {
	const grant = "Let the role replicate."
	switch s {
	case RDS, Aurora:
		return fault.Do(grant, fmt.Sprintf("GRANT rds_replication TO %s;", quoted))
	case CloudSQL, AlloyDB:
		return fault.Do(grant, fmt.Sprintf("ALTER USER %s WITH REPLICATION;", quoted))
	case Azure:
		return fault.Do(grant, fmt.Sprintf("ALTER ROLE %s WITH REPLICATION;", quoted))
	case Supabase:
		return fault.Do("Let the role replicate, as the role postgres. This works from PostgreSQL 17 on; before, "+
			"let the connector use the role postgres itself.", fmt.Sprintf("ALTER ROLE %s WITH REPLICATION;", quoted))
	case Neon:
		fill := ""
		if !plain(role) {
			role, fill = "NAME", fillIn
		}
		return fault.Do("Create the role with the CLI, the console or the API: such roles may replicate, and a "+
			"role that was created by SQL cannot be given the right."+fill, "neon roles create --name "+role)
	}
	return fault.Do(grant, fmt.Sprintf("ALTER ROLE %s REPLICATION;", quoted))
}

// GrantsReplication reports whether replication is a membership on the service, not an attribute of the role.
func (s Service) GrantsReplication() bool { return s == RDS || s == Aurora }

// LimitWAL sets max_slot_wal_keep_size.
func (s Service) LimitWAL(megabytes int64) fault.Remedy {
	switch s {
	case Azure:
		return fault.Do("The parameter is read-only there: let the storage grow, and alert on Storage Used."+fillIn,
			"az postgres flexible-server update --resource-group GROUP --name SERVER --storage-auto-grow Enabled")
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

// BuyTime raises max_slot_wal_keep_size for a slot that is about to be lost: to twice what it holds back, or to twice
// the present limit if that is more. Both are in bytes.
func (s Service) BuyTime(retained, limit int64) fault.Remedy {
	const gigabyte = 1 << 30
	more := s.LimitWAL((2*max(retained, limit) + gigabyte - 1) / gigabyte * 1024)
	more.Next = "First buy time, while the disk has room: the slot is about to be lost. " + more.Next
	return more
}

// LimitsWAL reports whether LimitWAL sets a limit.
func (s Service) LimitsWAL() bool { return s != Azure && s != Neon }

// SenderTimeout sets wal_sender_timeout.
func (s Service) SenderTimeout(milliseconds int64) fault.Remedy {
	return s.Set("wal_sender_timeout", strconv.FormatInt(milliseconds, 10), false)
}

// IdleTimeout sets idle_replication_slot_timeout (18+); its unit is the second.
func (s Service) IdleTimeout(seconds int64) fault.Remedy {
	if s == Supabase {
		return fault.Do("The CLI does not change idle_replication_slot_timeout: ask Supabase's support.")
	}
	return s.Set("idle_replication_slot_timeout", strconv.FormatInt(seconds, 10), false)
}

// With adds to a remedy which page is about the service.
func (s Service) With(r fault.Remedy) fault.Remedy {
	if s != Plain {
		r.Next += " " + s.Name() + ": see " + s.Page() + "."
	}
	return r
}

// plain reports whether s needs no quotes in a shell command.
func plain(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// Remedies are all that a service's page has to hold, as they are printed for a role of that name.
func Remedies(s Service, role string) []fault.Remedy {
	return []fault.Remedy{
		s.LogicalDecoding(),
		s.Replication(role, `"`+role+`"`),
		s.Set("max_replication_slots", "20", true),
		s.Set("max_wal_senders", "20", true),
		s.LimitWAL(50 * 1024),
		s.SenderTimeout(60_000),
		s.IdleTimeout(7 * 24 * 60 * 60),
	}
}
