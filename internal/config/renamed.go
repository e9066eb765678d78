package config

import "strings"

// renamed maps keys of earlier versions to their keys of today. An old key is refused with the new one, in the file, in
// the environment and as a flag: if it were read silently, a file could set both, and if it were only unknown, its
// reader would have to search for it. CHANGELOG.md lists the same pairs.
var renamed = map[string]string{
	"monitor.repeat":   "monitor.repeat_interval",
	"polling.after":    "polling.on_published",
	"postgres.memory":  "postgres.checkpoint",
	"postgres.standby": "postgres.hot_standby",
}

// RenamedFlag returns the flag that replaced the flag of this name, both without dashes in front, or nothing.
func RenamedFlag(name string) string { return renamedAs(name, flagName) }

// renamedVariable returns the variable that replaced this one, or nothing.
func renamedVariable(name string) string {
	if now := renamedAs(name, envName); now != "" {
		return now
	}
	base, isFile := strings.CutSuffix(name, FileSuffix)
	if now := renamedAs(base, envName); isFile && now != "" {
		return now + FileSuffix
	}
	return ""
}

// renamedAs looks name up among the old keys as they are written in one layer.
func renamedAs(name string, written func(key string) string) string {
	for old, now := range renamed {
		if written(old) == name {
			return written(now)
		}
	}
	return ""
}

// renamedProblem is the problem of a name that was replaced. Like unknown, it does not show the value.
func renamedProblem(name, now, where string) Problem {
	return Problem{Key: name, Where: where, What: "was renamed to " + now + "; use the new name"}
}
