package config

import (
	"maps"
	"slices"
)

// layerSettings is the origin of the settings of a program that embeds the relay.
const layerSettings = "settings"

// settingsLayer reads such settings. The values are written as in variables; an empty value sets a key to nothing.
func settingsLayer(settings map[string]string) (layer, Problems) {
	out := layer{}
	var problems Problems
	keyOf := func(f Field) string { return f.Key }
	byKey := fieldBy(keyOf)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if _, known := byKey[key]; !known {
			problems = append(problems, unknown(key, layerSettings, "key", names(keyOf)))
			continue
		}
		out[key] = given{Text: settings[key], Origin: Origin{Layer: layerSettings, Where: layerSettings}}
	}
	return out, problems
}
