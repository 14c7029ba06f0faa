package main

import "testing"

func TestExitOutsideMainIsFound(t *testing.T) {
	wantFindings(t, checkExits, repository(
		"services/orders/main.go", "package main\nimport \"os\"\nfunc main() { os.Exit(run()) }\nfunc run() int { return 0 }\n",
		"pkg/crash/crash.go", "package crash\nimport \"os\"\nfunc die() { os.Exit(1) }\n",
		"pkg/a/a_test.go", "package a\nimport (\"os\"; \"testing\")\nfunc TestMain(m *testing.M) { os.Exit(m.Run()) }\n",
	))
	wantFindings(t, checkExits, repository(
		"services/orders/main.go", "package main\nimport \"os\"\nfunc main() { run() }\nfunc run() { os.Exit(2) }\n",
		"pkg/inbox/inbox.go", "package inbox\nimport \"log\"\nfunc main() { log.Fatalf(\"no\") }\n",
		"scripts/up/up.go", "package main\nimport \"os\"\nvar quit = func() { os.Exit(0) }\n",
	),
		"pkg/inbox/inbox.go:3: log.Fatalf",
		"scripts/up/up.go:3: os.Exit",
		"services/orders/main.go:4: os.Exit",
	)
}
