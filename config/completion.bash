# SPDX-License-Identifier: Apache-2.0
# bash completion of posed's programs: commands, options, the words that an option takes, topics and
# drivers are what --help says.
_posed_complete() {
    local program=$1 word=$2 words command option help line at=1
    local choice='^ +((-[a-zA-Z]), )?(--[a-z-]+)=([A-Za-z0-9]+([|][A-Za-z0-9]+)+)( |$)'
    # posectl's common options may stand in front of the command, each with a value.
    while [[ ${program##*/} = posectl && ${COMP_WORDS[at]} = -?* && $at -lt $COMP_CWORD ]]; do
        [ "${COMP_WORDS[at + 1]}" != = ] || at=$((at + 1))
        at=$((at + 2))
    done
    command=${COMP_WORDS[at]}
    COMPREPLY=()
    case ${program##*/} in
    posectl | posed-bench)
        if [ "$COMP_CWORD" = $at ]; then
            words=$("$program" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p')
            mapfile -t COMPREPLY < <(compgen -W "$words --help --version" -- "$word")
            return
        fi
        ;;
    posed-align)
        if [[ $COMP_CWORD = 1 && $word == [a-z]* ]]; then
            mapfile -t COMPREPLY < <(compgen -W generate -- "$word")
            return
        fi
        [ "$command" = generate ] || command=
        ;;
    *) command= ;;
    esac
    # shellcheck disable=SC2086 # no word when there is no command
    help=$("$program" $command --help 2>/dev/null)
    # --option word, -o word; bash takes --option=word for three words.
    option=${COMP_WORDS[COMP_CWORD - 1]}
    if [ "$word" = = ]; then
        word=
    elif [ "$option" = = ]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    # "  -b, --backend=auto|cpu|cuda   What computes"; capitals stand for what is no such word.
    while IFS= read -r line; do
        if [[ $line =~ $choice && " ${BASH_REMATCH[2]} ${BASH_REMATCH[3]} " == *" $option "* ]]; then
            words=${BASH_REMATCH[4]//|/ }
        fi
    done <<<"$help"
    # "Usage: posectl map [OPTION...] save NAME", "  or:  posectl map [OPTION...] list"
    if [[ -z $words && $COMP_CWORD = $((at + 1)) && -n $command && $word != -* ]]; then
        words=$(sed -n 's/^\(Usage:\|  or: \) .*\[OPTION\.\.\.\] \([a-z][a-z]*\).*/\2/p' <<<"$help")
    fi
    # "Usage: posectl watch [OPTION...] [TOPIC...]", "TOPIC: pose, tf, depth."
    if [[ -z $words && $option != -* && $word != -* && $help == *"[TOPIC...]"* ]]; then
        words=$(tr '\n,' '  ' <<<"$help" | sed -n 's/.* TOPIC: \([a-z ]*\)\..*/\1/p')
    fi
    # "  synth: computed recording"
    if [[ ${program##*/} = posed && ($option = --source || $option != -*) && $word != -* ]]; then
        line=$(sed -n '/^Sources:/,$ s/^  \([a-z0-9]*:\) .*/\1/p' <<<"$help")
        mapfile -t COMPREPLY < <(compgen -W "$line" -- "$word")
        if [[ -n $word && ${#COMPREPLY[@]} -gt 0 ]]; then
            compopt +o filenames -o nospace 2>/dev/null # a place follows
            return
        fi
    fi
    if [ -n "$words" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -X '[A-Z]*' -- "$word"
            [[ $words != *FILE* ]] || compgen -f -- "$word")
    elif [[ $word == -* ]]; then
        words=$(grep -oE -- '--[a-z][a-z-]+' <<<"$help" | sort -u)
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -o filenames -F _posed_complete posed posectl posed-bench posed-eval posed-synth posed-align
