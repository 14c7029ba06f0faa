# Where does the Docker engine of .ci/docker come from? Sourced by it. Uses an engine that answers; else installs
# Debian's and starts it for the time of the script. Needs root only for what is missing, and $scratch, a folder for its files.

engine= # process id of the engine, if start_engine started it

install_packages() {
  local packages=()
  command -v curl >/dev/null || packages+=(curl)
  docker info >/dev/null 2>&1 || command -v dockerd >/dev/null || packages+=(docker.io)
  if ((${#packages[@]} == 0)); then return; fi
  echo "docker: installing ${packages[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install --yes -qq --no-install-recommends "${packages[@]}" >/dev/null
}

# compose.yaml needs Compose 2. Debian 12 has only version 1, so the plugin comes out of Debian 13's package, from the
# mirror this machine already uses, without adding that release to the machine's own sources.
install_compose() {
  if docker compose version >/dev/null 2>&1; then return; fi
  echo "docker: installing the compose plugin"
  apt-get update -qq
  local mirror apt=$scratch/apt
  # shellcheck disable=SC2016 # the words in brackets are for apt-get
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(SUITE)' 'Created-By: Packages' |
    awk '$2 == "Debian" && $3 !~ /security/ && !found++ { print $1 }')
  : "${mirror:?apt has no Debian mirror in its sources}"
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$apt/sources.list"
  local options=(-qq -o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update
  (cd "$apt" && apt-get "${options[@]}" download docker-compose)
  dpkg-deb --extract "$apt"/docker-compose_*.deb "$apt/package"
  install -D "$apt/package/usr/libexec/docker/cli-plugins/docker-compose" /usr/local/lib/docker/cli-plugins/docker-compose
}

start_engine() {
  if docker info >/dev/null 2>&1; then return; fi
  echo "docker: starting dockerd"
  # In a session of its own: ctrl-C must reach this script first, which then ends containers and engine in order.
  setsid dockerd >"$scratch/dockerd.log" 2>&1 &
  engine=$!
  local deadline=$((SECONDS + 60))
  until docker info >/dev/null 2>&1; do
    if ! kill -0 "$engine" 2>/dev/null || ((SECONDS > deadline)); then
      echo "docker: the engine does not start; its last lines:" >&2
      tail -n 20 "$scratch/dockerd.log" >&2
      return 1
    fi
    sleep 0.5
  done
}

stop_engine() {
  if [[ -z $engine ]]; then return; fi
  kill "$engine" 2>/dev/null || true
  wait "$engine" 2>/dev/null || true
  engine=
}
