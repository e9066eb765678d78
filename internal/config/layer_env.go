package config

import (
	"regexp"
	"strings"
)

// envConfig is the variable that names the configuration file; the flag --config wins over it.
const envConfig = EnvPrefix + "CONFIG"

// kubernetesService matches the variables that Kubernetes sets in every container for a Service whose name starts with
// cdc-outbox ("Environment variables", Kubernetes documentation of Service). They do not set keys. Refusing them would
// stop the pod when an operator adds a Service for its metrics. No key has a variable of this form.
var kubernetesService = regexp.MustCompile(`^CDC_OUTBOX_([A-Z0-9_]+_)?` +
	`(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// testPrefix starts the variables of this repository's tests, which start the program with their own environment.
const testPrefix = EnvPrefix + "TEST_"

// envLayer reads the variables that start with EnvPrefix. An empty variable counts as not set: a Compose file or a
// chart that passes variables on leaves unknown variables empty.
func envLayer(environ []string) (layer, Problems) {
	out := layer{}
	var problems Problems
	byEnv := fieldBy(func(f Field) string { return f.Env })
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if value == "" || !ownVariable(name) {
			continue
		}
		f, known := byEnv[name]
		if base, is := strings.CutSuffix(name, FileSuffix); !known && is && byEnv[base].Secret() {
			if strings.HasPrefix(value, "@") {
				value = "./" + value // @@ is a secret that begins with @
			}
			f, known, value = byEnv[base], true, "@"+value
		}
		if now := renamedVariable(name); !known && now != "" {
			problems = append(problems, renamedProblem(name, now, "environment"))
			continue
		}
		if !known {
			candidates := append(names(func(f Field) string { return f.Env }), envConfig)
			problems = append(problems, unknown(name, "environment", "variable", candidates))
			continue
		}
		if other := out[f.Key].Origin.Where; other != "" && other != name {
			problems = append(problems, Problem{Key: name, What: "is set together with " + other + "; set one of them"})
			continue
		}
		out[f.Key] = given{Text: value, Origin: Origin{Layer: "environment", Where: name}}
	}
	return out, problems
}

// ownVariable reports whether a variable of this name is meant to set a key.
func ownVariable(name string) bool {
	return strings.HasPrefix(name, EnvPrefix) && name != envConfig && !strings.HasPrefix(name, testPrefix) &&
		!kubernetesService.MatchString(name)
}
