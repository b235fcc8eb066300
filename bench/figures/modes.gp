# gnuplot -e "folder='…'" modes.gp: bandwidth.csv, levels.csv, parts.csv and cpu.csv of that folder become plots.
set terminal svg size 720,420 font "sans,12" noenhanced
set datafile separator ","
set grid
rows(file, how) = sprintf("< grep '^%s,' '%s/%s'", how, folder, file)

set output folder."/levels.svg"
set logscale x 2
set xlabel "requests in flight"
set ylabel "squeezenet, µs: median to largest"
set key top left
plot rows("levels.csv", "ours") using 2:4:4:9 with yerrorlines title "D, GPU-driven", \
     rows("levels.csv", "copy") using ($2*1.04):4:4:9 with yerrorlines title "B, copies by the CPU", \
     rows("levels.csv", "direct") using ($2*1.08):4:4:9 with yerrorlines title "C, launches by the CPU", \
     rows("levels.csv", "queued") using ($2*1.12):4:4:9 with yerrorlines title "C', queued launches"
unset logscale

set style data histograms
set style fill solid 0.8
set xtics rotate by -25
set output folder."/bandwidth.svg"
set xlabel ""
set ylabel "input and output, Gbit/s"
set key top left
plot "< grep ',ours,' '".folder."/bandwidth.csv'" using ($4+$5):xtic(1) title "D, GPU-driven", \
     "< grep ',copy,' '".folder."/bandwidth.csv'" using ($4+$5) title "B, copies by the CPU"

set style histogram rowstacked
set output folder."/parts.svg"
set ylabel "superresolution, one in flight: mean, µs"
set key outside right
plot for [i=2:6] folder."/parts.csv" using i:xtic(1) title columnheader(i)

set style histogram clustered
set output folder."/cpu.svg"
set ylabel "the server's own CPU time, % of a core"
set key off
plot folder."/cpu.csv" using 3:xtic(1)
