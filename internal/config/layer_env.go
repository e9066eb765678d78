package config

import (
	"regexp"
	"strings"

	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/v2"
)

// envConfig is the variable that names the configuration file; the flag --config wins over it.
const envConfig = EnvPrefix + "CONFIG"

// kubernetesService matches the variables that Kubernetes sets in every container for a Service whose name starts with
// cdc-outbox ("Environment variables", Kubernetes documentation of Service). They are not ours, and refusing them would
// stop the pod as soon as somebody adds a Service for its metrics. No key of ours looks like them.
var kubernetesService = regexp.MustCompile(`^CDC_OUTBOX_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// testPrefix starts the variables of this repository's own tests, which start the program with their environment.
const testPrefix = EnvPrefix + "TEST_"

// loadEnv puts the environment over what k holds. An empty variable counts as not set: a Compose file or a chart that
// passes variables on leaves those empty that it does not know.
func loadEnv(k *koanf.Koanf, environ []string) Problems {
	var problems Problems
	byEnv := fieldBy(func(f Field) string { return f.Env })
	setBy := map[string]string{} // key -> variable
	take := func(name, value string) (string, any) {
		if value == "" || name == envConfig || strings.HasPrefix(name, testPrefix) || kubernetesService.MatchString(name) {
			return "", nil
		}
		f, known := byEnv[name]
		if base, is := strings.CutSuffix(name, fileSuffix); !known && is && byEnv[base].Secret() {
			f, known, value = byEnv[base], true, "@"+value
		}
		if !known {
			candidates := append(names(func(f Field) string { return f.Env }), envConfig)
			problems = append(problems, unknown(name, "environment", "variable", candidates))
			return "", nil
		}
		if other, twice := setBy[f.Key]; twice && other != name {
			problems = append(problems, Problem{Key: name, What: "is set together with " + other + "; set one of them"})
			return "", nil
		}
		setBy[f.Key] = name
		return f.Key, given{Text: value, Origin: Origin{Layer: "environment", Where: name}}
	}
	provider := env.Provider(".", env.Opt{Prefix: EnvPrefix, TransformFunc: take, EnvironFunc: func() []string { return environ }})
	if err := k.Load(provider, nil); err != nil {
		problems = append(problems, Problem{Key: "environment", What: err.Error()})
	}
	return problems
}
